//! `lightloomd`: the daemons. `lightloom` calls it; it can be called alone.
//!
//! Exit codes: 0 for a good end, SIGTERM included; 1 for a failure on the way; 2 for bad input, with one
//! line on standard error; 130 for an interrupt.

use clap::error::ErrorKind;
use clap::{Parser, Subcommand, ValueEnum};
use lightloom_control::execution::Task;
use lightloom_daemon::agent::AgentArguments;
use lightloom_daemon::emulate::EmulateArguments;
use lightloom_daemon::execution::{CarryArguments, ExecuteArguments, NodeArguments};
use lightloom_daemon::failure::Failure;
use lightloom_daemon::filter::FilterArguments;
use lightloom_daemon::runtime_emulator::RuntimeArguments;
use lightloom_daemon::{fence, ocs, runtime, serve, show};
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

/// The daemons of Lightloom's control plane
#[derive(Debug, Parser)]
#[command(name = "lightloomd", version)]
struct Arguments {
    /// How logs are written to standard error
    #[arg(long, global = true, value_enum, default_value_t = Log::Text)]
    log: Log,
    /// What is logged: error, warn, info, debug, trace, or by module as in lightloom_daemon::ocs=debug
    #[arg(long, global = true, default_value = "info", value_name = "LEVEL")]
    log_level: String,
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Log {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum What {
    /// An emulated optical switch, or a gateway in front of one
    #[command(subcommand)]
    Ocs(Ocs),
    /// The controller of a region
    #[command(subcommand)]
    Controller(Controller),
    /// Agents, one a server
    #[command(subcommand)]
    Agent(Agent),
    #[command(subcommand)]
    Filter(FilterArguments),
    /// The runtime of a server: it moves the bytes of collectives
    #[command(subcommand)]
    Runtime(Runtime),
    Node(Box<CarryArguments>),
    /// Nodes that follow a plan, emulated
    NodeEmulator(Box<NodeArguments>),
    RuntimeEmulator(RuntimeArguments),
}

#[derive(Debug, Subcommand)]
enum Agent {
    /// Run the agent of one server
    Serve(AgentArguments),
    /// Run the agents of all servers, with demands from a file
    Emulate(EmulateArguments),
}

#[derive(Debug, Subcommand)]
enum Runtime {
    Serve(runtime::ServeArguments),
}

#[derive(Debug, Subcommand)]
enum Controller {
    /// Drive the region's switch, until stopped
    Serve {
        /// The region's file
        region: PathBuf,
    },
    /// Set optical switches to what port maps begin with, all or none
    Load(Box<ExecuteArguments>),
    /// Load port maps, then carry them out as nodes say what they have sent
    Run(Box<ExecuteArguments>),
    /// Say what a region's file means, or what is wrong with it
    Check {
        /// The region's file
        region: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show who asked for what: calls that changed something, and calls that were refused
    Trail {
        /// The region's file
        region: PathBuf,
        /// The last so many
        #[arg(long, default_value_t = 30)]
        limit: usize,
        /// Print JSON, an object a line
        #[arg(long)]
        json: bool,
    },
    /// List the protocols that switches are driven by, and the settings of each
    Drivers {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum Ocs {
    /// Serve an emulated switch on TL1
    Serve(Box<ocs::ServeArguments>),
    /// Show what went through an emulated switch that has NICs, by port
    Counts(ocs::CountsArguments),
    /// Stand in front of a switch: issue terms to controllers, and refuse those that have an older one
    Gateway {
        /// The gateway's file
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => return wrong(&error),
        Err(help) => {
            // Whoever asked for help and does not read it needs none.
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    let ended = log(&arguments).and_then(|()| work(arguments.what));
    ended.unwrap_or_else(|failure| {
        eprintln!("{failure}");
        failure.code()
    })
}

/// One line, without the usage.
fn wrong(error: &clap::Error) -> ExitCode {
    let text = error.to_string();
    let paragraph = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "a subcommand is missing: --help shows all"
        }
        _ => text.split("\n\n").next().unwrap_or(&text),
    };
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("{}", line.strip_prefix("error: ").unwrap_or(&line));
    ExitCode::from(2)
}

fn log(arguments: &Arguments) -> Result<(), Failure> {
    let level = &arguments.log_level;
    let filter = EnvFilter::try_new(level)
        .map_err(|why| Failure::Input(format!("--log-level: {level}: {why}")))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match arguments.log {
        Log::Text => logs.with_ansi(false).init(),
        Log::Json => logs.json().init(),
    }
    Ok(())
}

fn work(what: What) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|why| Failure::Run(why.to_string()))?;
    let ended = runtime.block_on(async {
        let mut interrupt = caught(SignalKind::interrupt())?;
        let mut terminate = caught(SignalKind::terminate())?;
        let what = match what {
            What::Controller(Controller::Load(arguments)) => (arguments, Task::Load),
            What::Controller(Controller::Run(arguments)) => (arguments, Task::Run),
            what => return daemon(what, interrupt, terminate).await,
        };
        // Nothing is left half-done: it is told to stop, and ends by itself.
        let (stop, stopped) = oneshot::channel();
        let mut work = pin!(what.0.run(what.1, stopped));
        let code = tokio::select! {
            done = &mut work => return done.map(|()| ExitCode::SUCCESS),
            _ = interrupt.recv() => ExitCode::from(130),
            _ = terminate.recv() => ExitCode::from(143),
        };
        let _ = stop.send(());
        if let Err(failure) = work.await {
            eprintln!("{failure}");
        }
        Ok(code)
    });
    // What is still blocked, a look-up of a name as a rule, is not waited for.
    runtime.shutdown_timeout(Duration::from_millis(200));
    ended
}

/// Everything that has to be saved is saved as it happens: a daemon ends well wherever it is dropped.
async fn daemon(
    what: What,
    mut interrupt: Signal,
    mut terminate: Signal,
) -> Result<ExitCode, Failure> {
    tokio::select! {
        done = run(what) => done.map(|()| ExitCode::SUCCESS),
        _ = interrupt.recv() => Ok(ExitCode::from(130)),
        _ = terminate.recv() => Ok(ExitCode::SUCCESS),
    }
}

fn caught(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|why| Failure::Run(format!("signals: {why}")))
}

async fn run(what: What) -> Result<(), Failure> {
    match what {
        What::Ocs(Ocs::Serve(arguments)) => arguments.run().await,
        What::Ocs(Ocs::Counts(arguments)) => arguments.run(),
        What::Ocs(Ocs::Gateway { file }) => fence::serve(&file).await,
        What::Agent(Agent::Serve(arguments)) => arguments.run().await,
        What::Agent(Agent::Emulate(arguments)) => arguments.run().await,
        What::Filter(arguments) => arguments.run(),
        What::Runtime(Runtime::Serve(arguments)) => arguments.run().await,
        What::Node(arguments) => arguments.run().await,
        What::NodeEmulator(arguments) => arguments.run().await,
        What::Controller(Controller::Load(_) | Controller::Run(_)) => Ok(()), // see `work`
        What::RuntimeEmulator(arguments) => arguments.run().await,
        What::Controller(Controller::Serve { region }) => serve::controller(&region).await,
        What::Controller(Controller::Check { region, json }) => show::check(&region, json),
        What::Controller(Controller::Trail { region, limit, json }) => {
            show::calls(&region, limit, json)
        }
        What::Controller(Controller::Drivers { json }) => show::drivers(json),
    }
}
