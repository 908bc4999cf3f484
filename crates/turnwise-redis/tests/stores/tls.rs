//! Servers over TLS: certificates, notices, and servers that come back.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::support::{Server, free_port, until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use turnwise_redis::{ConnectError, Majority, Remote, RemoteBuilder, StoreError, Tls};

/// The issuer of certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn root(&self) -> String {
        self.0.pem()
    }

    /// Returns a certificate for a name, and its key.
    fn signed(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// A server with a port for TLS beside its own.
struct Secure {
    server: Server,
    port: u16,
    folder: PathBuf,
}

impl Secure {
    /// Starts one for `localhost`, which requires certificates of clients or does not.
    fn start(authority: &Authority, asks: bool) -> Secure {
        let port = free_port();
        let folder = format!("turnwise-tls-{}-{port}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let (certificate, key) = authority.signed("localhost");
        let file = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (certificate, key) = (file("server.pem", certificate), file("server.key", key));
        let root = file("root.pem", authority.root());
        let (number, asks) = (port.to_string(), if asks { "yes" } else { "no" });
        let server = Server::with(&[
            "--save",
            "",
            "--tls-port",
            &number,
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &root,
            "--tls-auth-clients",
            asks,
        ]);
        Secure { server, port, folder }
    }

    fn url(&self) -> String {
        format!("rediss://localhost:{}/", self.port)
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn builder() -> RemoteBuilder {
    Remote::builder().answer_within(Duration::from_secs(5)).give_up_after(Duration::from_secs(20))
}

#[test]
fn locks_are_handed_on_by_notices() {
    let authority = Authority::new();
    let secure = Secure::start(&authority, false);
    let connect = || {
        let tls = Tls::new().trust(authority.root());
        builder().place(Duration::from_secs(30)).tls(tls).connect(&secure.url()).unwrap().locks()
    };
    let (locks, others) = (connect(), connect());
    let guard = locks.lock("a").wait().unwrap();
    let waits = thread::spawn(move || others.lock("a").wait().unwrap().fence());
    until("one waits", || locks.info("a").wait().unwrap().is_some_and(|it| it.waiting == 1));
    let fence = guard.fence();
    guard.release().wait().unwrap();
    assert!(waits.join().unwrap() > fence);
}

#[test]
fn servers_come_back() {
    let authority = Authority::new();
    let mut secure = Secure::start(&authority, false);
    let tls = Tls::new().trust(authority.root());
    let locks = builder().tls(tls).connect(&secure.url()).unwrap().locks();
    let first = locks.lock("a").wait().unwrap().fence();
    secure.server.kill();
    secure.server.run();
    assert!(locks.lock("b").wait().unwrap().fence() > first);
}

#[test]
fn clients_show_their_certificates() {
    let authority = Authority::new();
    let secure = Secure::start(&authority, true);
    let tls = Tls::new().trust(authority.root());
    let (certificate, key) = authority.signed("client");
    let shown = tls.clone().identity(certificate, key);
    let remote = builder().tls(shown).connect(&secure.url()).unwrap();
    remote.locks().lock("a").wait().unwrap().release().wait().unwrap();
    let error = builder().tls(tls).connect(&secure.url()).unwrap_err();
    assert!(matches!(error, ConnectError::Store(StoreError::Unreachable { .. })), "{error}");
}

#[test]
fn servers_that_are_not_trusted_are_refused() {
    let authority = Authority::new();
    let secure = Secure::start(&authority, false);
    let another = Tls::new().trust(Authority::new().root());
    let error = builder().tls(another).connect(&secure.url()).unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    // The certificate is for another name.
    let url = format!("rediss://127.0.0.1:{}/", secure.port);
    let tls = Tls::new().trust(authority.root());
    let error = builder().tls(tls.clone()).connect(&url).unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    // The port does not use TLS.
    let url = format!("rediss://localhost:{}/", secure.server.port);
    let error = builder().tls(tls).connect(&url).unwrap_err();
    assert!(matches!(error, ConnectError::Store(StoreError::Unreachable { .. })), "{error}");
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let wrong = |tls: Tls, url: &str| {
        let error = builder().tls(tls).connect(url).unwrap_err();
        assert!(matches!(error, ConnectError::Tls(_)), "{error:?}");
        error.to_string()
    };
    let (broken, url) =
        ("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n", "rediss://a/");
    assert!(wrong(Tls::new().trust(broken), url).contains("certificate"));
    assert!(wrong(Tls::new().trust("no certificate"), url).contains("certificate"));
    let identity = Tls::new().identity("no certificate", "no key");
    assert!(wrong(identity.clone(), url).contains("certificate"));
    let identity = Tls::new().identity(Authority::new().root(), "no key");
    assert!(wrong(identity.clone(), url).contains("key"));
    // Certificates are for TLS.
    assert!(wrong(Tls::new(), "redis://127.0.0.1/").contains("rediss://"));
    // TLS without verification is refused.
    let error = builder().connect("rediss://127.0.0.1/#insecure").unwrap_err();
    assert!(error.to_string().contains("nsecure"), "{error}");
    assert!(!format!("{identity:?}").contains("no key"));
}

#[test]
fn majorities_are_reached_over_it() {
    let authority = Authority::new();
    let servers: Vec<_> = (0..3).map(|_| Secure::start(&authority, false)).collect();
    let urls: Vec<_> = servers.iter().map(Secure::url).collect();
    let tls = Tls::new().trust(authority.root());
    let majority = Majority::builder().answer_within(Duration::from_secs(5)).tls(tls);
    let majority =
        majority.quarantine(Duration::ZERO).connect(urls.iter().map(String::as_str)).unwrap();
    majority.lock("a").wait().unwrap().release().wait().unwrap();
}

#[cfg(feature = "programs")]
#[test]
fn programs_find_the_roots_of_the_system() {
    let authority = Authority::new();
    let secure = Secure::start(&authority, false);
    let run = |root: &str| {
        let mut lock = std::process::Command::new(env!("CARGO_BIN_EXE_lock"));
        lock.args(["--url", &secure.url(), "a", "--", "true"]);
        lock.env("SSL_CERT_FILE", secure.folder.join(root)).output().unwrap()
    };
    let output = run("root.pem");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(secure.folder.join("other.pem"), Authority::new().root()).unwrap();
    assert_eq!(run("other.pem").status.code(), Some(69));
}
