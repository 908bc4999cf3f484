//! A proxy that understands the protocol: it can lose an answer after its command has run, double
//! a command, and redirect one.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::Dice;

/// The fate of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Forward,
    /// It is lost, and the connection ends.
    LoseCommand,
    /// It runs, its answer is lost, and the connection ends.
    LoseAnswer,
    /// It runs twice; the first answer arrives.
    Double,
    /// It runs, and its answer arrives this much later.
    Delay(Duration),
    /// It does not run, and its answer is an error of this code that names this port. No other
    /// answer is under way.
    Redirect(&'static str, u16),
}

pub struct Proxy {
    pub port: u16,
    fates: Arc<Mutex<Box<dyn FnMut() -> Fate + Send>>>,
}

impl Proxy {
    /// A proxy before a server, with a fate for each script call.
    pub fn new(server: u16, fates: impl FnMut() -> Fate + Send + 'static) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let fates: Arc<Mutex<Box<dyn FnMut() -> Fate + Send>>> =
            Arc::new(Mutex::new(Box::new(fates)));
        let all = fates.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                serve(client, server, all.clone());
            }
        });
        Proxy { port, fates }
    }

    /// A proxy in which one of eight commands has a bad fate.
    pub fn faulty(server: u16, seed: u64) -> Proxy {
        let mut dice = Dice(seed);
        Proxy::new(server, move || match dice.roll(24) {
            0 => Fate::LoseCommand,
            1 => Fate::LoseAnswer,
            2 => Fate::Double,
            _ => Fate::Forward,
        })
    }

    /// Replaces the fates of later commands.
    pub fn then(&self, fates: impl FnMut() -> Fate + Send + 'static) {
        *self.fates.lock().unwrap() = Box::new(fates);
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

type Fates = Arc<Mutex<Box<dyn FnMut() -> Fate + Send>>>;

fn serve(client: TcpStream, server: TcpStream, fates: Fates) {
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    // The fates of pending answers: forwarded, swallowed, or the end.
    let answers = Arc::new(Mutex::new(VecDeque::new()));
    let (mut from, mut to) =
        (BufReader::new(client.try_clone().unwrap()), server.try_clone().unwrap());
    let mut back = client.try_clone().unwrap();
    let expected = answers.clone();
    thread::spawn(move || {
        let mut up = || -> io::Result<()> {
            loop {
                let command = frame(&mut from)?;
                let script = command.windows(7).any(|word| word == b"EVALSHA");
                let fate = if script { fates.lock().unwrap()() } else { Fate::Forward };
                match fate {
                    Fate::LoseCommand => return Ok(()),
                    Fate::Redirect(code, port) => {
                        back.write_all(format!("-{code} 1 127.0.0.1:{port}\r\n").as_bytes())?;
                        continue;
                    }
                    Fate::Double => {
                        expected.lock().unwrap().extend([Fate::Forward, Fate::Double]);
                        to.write_all(&command)?;
                    }
                    fate => expected.lock().unwrap().push_back(fate),
                }
                to.write_all(&command)?;
            }
        };
        let _ = up();
        let _ = to.shutdown(Shutdown::Both);
    });
    let (mut from, mut to) = (BufReader::new(server), client);
    thread::spawn(move || {
        let mut down = || -> io::Result<()> {
            loop {
                let answer = frame(&mut from)?;
                if answer[0] == b'>' && !confirms(&answer) {
                    to.write_all(&answer)?;
                    continue;
                }
                let fate = answers.lock().unwrap().pop_front();
                if let Some(Fate::Delay(time)) = fate {
                    thread::sleep(time);
                }
                match fate {
                    Some(Fate::LoseAnswer) => return Ok(()),
                    Some(Fate::Double) => {}
                    _ => to.write_all(&answer)?,
                }
            }
        };
        let _ = down();
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.get_ref().shutdown(Shutdown::Both);
    });
}

/// True if a push answers a command.
fn confirms(push: &[u8]) -> bool {
    push.windows(9).any(|word| word == b"subscribe")
}

/// Reads one whole value, unchanged.
fn frame(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    if from.read_until(b'\n', &mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let text = String::from_utf8_lossy(&line[1..]).trim_end().to_owned();
    let count = text.parse::<i64>().unwrap_or(-1);
    let parts = match line[0] {
        b'$' | b'=' | b'!' if count >= 0 => {
            let start = line.len();
            line.resize(start + count as usize + 2, 0);
            from.read_exact(&mut line[start..])?;
            0
        }
        b'*' | b'~' | b'>' => count.max(0),
        b'%' => count * 2,
        _ => 0,
    };
    for _ in 0..parts {
        line.extend(frame(from)?);
    }
    Ok(line)
}
