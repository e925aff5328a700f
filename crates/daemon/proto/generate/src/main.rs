//! Writes the Rust code of the protocols; needs `protoc` (Debian: protobuf-compiler).

use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, file) in [("control", "generated.rs"), ("execution", "execution.rs")] {
        let out = proto.join("../src/proto").join(file);
        let folder = env::temp_dir().join(format!("lightloom-proto-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        tonic_prost_build::configure()
            .out_dir(&folder)
            .compile_protos(&[proto.join(format!("{name}.proto"))], std::slice::from_ref(&proto))?;
        let code = fs::read_to_string(folder.join(format!("lightloom.{name}.v1.rs")))?;
        let header = format!("// Written by `make proto` from proto/{name}.proto: change that.\n");
        fs::write(out, format!("{header}{code}"))?;
        fs::remove_dir_all(folder)?;
    }
    Ok(())
}
