//! Writes the Rust code of `control.proto`; needs `protoc` (Debian: protobuf-compiler).

use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let out = proto.join("../src/proto/generated.rs");
    let folder = env::temp_dir().join(format!("lightloom-proto-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    tonic_prost_build::configure()
        .out_dir(&folder)
        .compile_protos(&[proto.join("control.proto")], std::slice::from_ref(&proto))?;
    let code = fs::read_to_string(folder.join("lightloom.control.v1.rs"))?;
    let header = "// Written by `make proto` from proto/control.proto: change that.\n";
    fs::write(out, format!("{header}{code}"))?;
    fs::remove_dir_all(folder)?;
    Ok(())
}
