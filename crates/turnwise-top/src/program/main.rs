//! `turnwise-top`: a table of a live program's actors, in a terminal or as text.

mod demo;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod svg;
mod table;
mod view;

use std::error::Error;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use clap::Parser;
use ratatui::crossterm::event::{self, Event};
use turnwise_top::{Address, Client, ClientError, Snapshot};

use demo::Demo;
use table::{Column, Order, Table};
use view::View;

/// A table of a live program's actors, for turnwise.
///
/// The program serves it: `let _top = turnwise_top::serve(&system)?;`. Without
/// an address, the one program of this user that does is shown.
///
/// In the table: 1 to 8 sort by a column, and once more the other way round; r
/// reverses; / filters by name, Esc shows all; p pauses; arrows scroll; q quits.
///
/// Exit codes: 0; 1 if the output cannot be written, 2 for bad usage, 69 if no
/// program answers.
#[derive(Parser)]
#[command(name = "turnwise-top", version, verbatim_doc_comment)]
struct Arguments {
    /// Socket of the program: a path, or 127.0.0.1:PORT
    #[arg(conflicts_with = "demo")]
    address: Option<Address>,
    /// Show a small program that has actors in all states
    #[arg(long)]
    demo: bool,
    /// Print one table as text, and end
    #[arg(long)]
    once: bool,
    /// Print snapshots as lines of JSON
    #[arg(long)]
    json: bool,
    /// Milliseconds between two snapshots
    #[arg(
        long,
        value_name = "MS",
        default_value = "1000",
        value_parser = clap::value_parser!(u64).range(100..=60_000)
    )]
    every: u64,
}

/// An exit code, and the reason, if it is not 0.
struct Failure(u8, String);

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure(1, error.to_string())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Failure(69, error.to_string())
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            let reason = line.trim_start_matches("error: ");
            return failed(&Failure(2, format!("{reason}: see turnwise-top --help")));
        }
        // Help, and the version.
        Err(error) => return ended(print(&error.to_string())),
    };
    ended(run(&arguments))
}

fn ended(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failed(&failure),
    }
}

fn failed(Failure(code, reason): &Failure) -> ExitCode {
    if *code > 0 {
        eprintln!("turnwise-top: {reason}");
    }
    ExitCode::from(*code)
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let every = Duration::from_millis(arguments.every);
    let is_text = arguments.once || arguments.json;
    if !is_text && !io::stdout().is_terminal() {
        return Err(Failure(2, "the output is no terminal: use --once or --json".to_owned()));
    }
    let demo = if arguments.demo { Some(Demo::start()?) } else { None };
    let address = match &demo {
        Some(demo) => demo.address().clone(),
        None => arguments.address.clone().map_or_else(found, Ok)?,
    };
    if !is_text {
        return in_terminal(&address, every);
    }
    let mut client = connect(&address)?;
    if demo.is_some() {
        demo::until_all_is_shown(&mut client)?;
    }
    if !arguments.json {
        let before = client.snapshot()?;
        thread::sleep(every);
        let table = Table::of(&client.snapshot()?, Some(&before));
        return print(&table.text(Order::by(Column::Busy)));
    }
    loop {
        print(&format!("{}\n", client.snapshot()?.to_json()))?;
        if arguments.once {
            return Ok(());
        }
        thread::sleep(every);
    }
}

/// The address of the one program that serves its actors.
fn found() -> Result<Address, Failure> {
    let mut all = Address::all();
    match all.len() {
        0 => {
            let reason =
                "no program of this user serves its actors: call turnwise_top::serve in it";
            Err(Failure(69, reason.to_owned()))
        }
        1 => Ok(all.remove(0)),
        _ => {
            let all: Vec<String> = all.iter().map(|address| format!("\n  {address}")).collect();
            Err(Failure(
                2,
                format!("several programs serve their actors, choose one:{}", all.concat()),
            ))
        }
    }
}

fn connect(address: &Address) -> Result<Client, Failure> {
    Client::connect(address).map_err(|error| {
        let cause = error.source().map_or(String::new(), |cause| format!(": {cause}"));
        Failure(69, format!("{address}: {error}{cause}"))
    })
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure(0, String::new())),
        printed => Ok(printed?),
    }
}

/// Shows the table until a key ends it.
fn in_terminal(address: &Address, every: Duration) -> Result<(), Failure> {
    // What cannot be reached at all is an error before the terminal is touched.
    let snapshots = snapshots(address, connect(address)?, every);
    let mut terminal = ratatui::try_init()?;
    let mut view = View::new();
    let shown = loop {
        if let Err(error) = terminal.draw(|frame| view.draw(frame)) {
            break Err(error);
        }
        match event::poll(Duration::from_millis(50)) {
            Ok(false) => {}
            Ok(true) => match event::read() {
                Ok(Event::Key(key)) => view.key(key),
                Ok(_) => {}
                Err(error) => break Err(error),
            },
            Err(error) => break Err(error),
        }
        snapshots.try_iter().for_each(|snapshot| view.take(snapshot));
        if view.is_over {
            break Ok(());
        }
    };
    ratatui::try_restore()?;
    Ok(shown?)
}

/// Asks for snapshots on a thread of its own, so that keys work while a program does not answer. A
/// program that has ended is tried again.
fn snapshots(
    address: &Address,
    client: Client,
    every: Duration,
) -> Receiver<Result<Snapshot, String>> {
    let (tx, rx) = mpsc::channel();
    let address = address.clone();
    thread::spawn(move || {
        let mut connected: Result<Client, ClientError> = Ok(client);
        loop {
            let snapshot = connected.and_then(|mut client| Ok((client.snapshot()?, client)));
            let (told, next) = match snapshot {
                Ok((snapshot, client)) => (Ok(snapshot), Some(client)),
                Err(error) => (Err(error.to_string()), None),
            };
            if tx.send(told).is_err() {
                return;
            }
            thread::sleep(every);
            connected = next.map_or_else(|| Client::connect(&address), Ok);
        }
    });
    rx
}
