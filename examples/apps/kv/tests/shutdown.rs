//! Ctrl-C, and the programs that come with redis.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use common::{Kv, TABLES, frame, skipped, text};

#[test]
fn ctrl_c_ends_it_whatever_the_clients_do() {
    for table in TABLES {
        let kv = Kv::start(table);
        let mut client = kv.client();
        let big = vec![b'x'; 1 << 20];
        client.send(&frame(&[b"SET", b"big", &big, b"EX", b"1000"]));
        assert_eq!(client.reply(), b"+OK\r\n");
        assert_eq!(client.ask("SET a 1"), "+OK");
        // One client sends nothing, one has sent a half, one does not read.
        let _idle = kv.client();
        let mut half = kv.client();
        half.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100\r\nhalf");
        let mut deaf = kv.client();
        // It came last: so the others are connected, too.
        assert_eq!(deaf.ask("PING"), "+PONG");
        deaf.send(&frame(&[b"GET", b"big"]).repeat(50));
        assert_eq!(client.ask("PING"), "+PONG");
        kv.interrupt();
        assert_eq!(client.rest(), b"");
        let (status, rest) = kv.wait();
        assert_eq!(status.code(), Some(0), "{table}");
        assert!(rest.contains(" commands of 4 connections; 2 keys"), "{table}: {rest}");
    }
}

#[test]
fn commands_that_were_read_are_answered_at_the_end() {
    let kv = Kv::start("actors");
    let mut client = kv.client();
    // One write to a socket that is empty: the server reads all of it at once.
    let batch = frame(&[b"INCR", b"a"]).repeat(100);
    client.send(&batch);
    assert_eq!(client.reply(), b":1\r\n");
    kv.interrupt();
    let rest = text(&client.rest());
    assert!(rest.ends_with(":100\r\n"), "{rest}");
    let (status, rest) = kv.wait();
    assert_eq!(status.code(), Some(0));
    assert!(rest.contains("kv: 100 commands of 1 connections; 1 keys"), "{rest}");
}

#[test]
fn the_line_of_figures_is_there_if_it_is_wanted() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kv"))
        .args(["--live"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut figures = String::new();
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
    lines.read_line(&mut figures).expect("a line of figures");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert!(figures.contains(" commands/s ") && figures.contains(" keys "), "{figures}");
    assert!(text(&output.stdout).contains("kv: 0 commands of 0 connections; 0 keys"));
}

#[test]
fn a_wrong_start_is_an_error() {
    let kv = Kv::start("mutex");
    let port = kv.port.to_string();
    let run = |arguments: &[&str]| {
        let program = env!("CARGO_BIN_EXE_kv");
        Command::new(program).args(arguments).output().expect("it runs")
    };
    let taken = run(&["--port", &port]);
    assert_eq!(taken.status.code(), Some(1));
    assert!(text(&taken.stderr).starts_with("kv: "), "{:?}", text(&taken.stderr));
    assert_eq!(run(&["--keys", "none"]).status.code(), Some(2));
    assert_eq!(run(&["--threads", "0"]).status.code(), Some(2));
}

#[test]
fn redis_cli_talks_to_it() {
    let kv = Kv::start("actors");
    let port = kv.port.to_string();
    let started = Command::new("redis-cli")
        .args(["-p", &port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut cli = match started {
        Ok(cli) => cli,
        Err(error) => return skipped("redis_cli_talks_to_it", &format!("no redis-cli: {error}")),
    };
    let script = "SET greeting \"hello world\" EX 100\nGET greeting\nINCR n\nMGET greeting n none\n\
                  TTL none\nGET\nFROB x\nDBSIZE\nFLUSHALL\nDBSIZE\n";
    let mut input = cli.stdin.take().expect("its input is piped");
    input.write_all(script.as_bytes()).expect("it reads");
    drop(input);
    let output = cli.wait_with_output().expect("it ends");
    let lines: Vec<_> = text(&output.stdout).lines().map(str::to_string).collect();
    let expected = [
        "OK",
        "hello world",
        "1",
        "hello world",
        "1",
        "",
        "-2",
        "ERR wrong number of arguments for 'get' command",
        "",
        "ERR unknown command 'FROB', with args beginning with: 'x' ",
        "",
        "2",
        "OK",
        "0",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn redis_benchmark_runs_on_it() {
    for table in TABLES {
        let kv = Kv::start(table);
        for pipeline in ["1", "64"] {
            let run = Command::new("redis-benchmark")
                .args(["-p", &kv.port.to_string(), "-t", "ping,set,get,incr,mset"])
                .args(["-n", "5000", "-c", "20", "-r", "1000", "-P", pipeline, "-q"])
                .output();
            let output = match run {
                Ok(output) => output,
                Err(error) => {
                    let why = format!("no redis-benchmark: {error}");
                    return skipped("redis_benchmark_runs_on_it", &why);
                }
            };
            let said = text(&output.stdout).replace('\r', "\n");
            assert!(output.status.success(), "{said}");
            assert_eq!(said.matches("requests per second").count(), 6, "{said}");
            assert_eq!(text(&output.stderr), "", "{table}");
        }
    }
}
