//! The folder, as hosts of the web, and the answers of each host.
//!
//! The hosts share the top folders in turn; files at the top belong to the first host. A host
//! redirects requests for files of another host, so links between the folders lead from host to
//! host. Only files that existed when the folder was scanned are served: no path leads out of it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};

use crate::address::{Address, name};
use crate::faults::draw;

/// The response to a request.
#[derive(Debug)]
pub struct Response {
    /// The status, as in HTTP.
    pub status: u16,
    /// True for a page.
    pub html: bool,
    /// The target of a redirection.
    pub location: Option<String>,
    /// The file.
    pub body: Vec<u8>,
}

impl Response {
    /// Makes a response with only a status.
    pub fn bare(status: u16) -> Self {
        Response { status, html: false, location: None, body: Vec::new() }
    }
}

/// A planted link: the page, and the link.
pub type Plant = (String, String);

/// The folder.
pub struct Site {
    /// The files by their paths, with `/` between the names.
    files: BTreeMap<Vec<u8>, PathBuf>,
    folders: HashSet<Vec<u8>>,
    /// The hosts of the top folders.
    tops: HashMap<Vec<u8>, usize>,
    hosts: usize,
    /// The text that is put in front of pages.
    planted: HashMap<Vec<u8>, String>,
    plants: Vec<Plant>,
}

/// The characters that are encoded in a path of a URL.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'}');

fn encoded(key: &[u8]) -> String {
    format!("/{}", percent_encode(key, ENCODED))
}

fn is_html(key: &[u8]) -> bool {
    let end = key.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    end.eq_ignore_ascii_case(b"html") || end.eq_ignore_ascii_case(b"htm")
}

/// The prefix of the names of planted links that redirect to themselves.
const AROUND: &[u8] = b"planted-around-";

impl Site {
    /// Scans a folder, which at most this many hosts serve; a host without a top folder would serve
    /// nothing.
    ///
    /// # Errors
    /// The folder cannot be read, or has no page.
    pub fn open(root: &Path, hosts: usize) -> Result<Site, String> {
        let said = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        let root_of = fs::metadata(root).map_err(|error| said(root, error))?;
        if !root_of.is_dir() {
            return Err(format!("{}: it is no folder", root.display()));
        }
        let (mut files, mut folders) = (BTreeMap::new(), HashSet::new());
        let mut open = vec![(root.to_owned(), Vec::new())];
        while let Some((folder, key)) = open.pop() {
            for entry in fs::read_dir(&folder).map_err(|error| said(&folder, error))? {
                let entry = entry.map_err(|error| said(&folder, error))?;
                let path = entry.path();
                let mut key = key.clone();
                key.extend_from_slice(entry.file_name().as_encoded_bytes());
                let kind = entry.file_type().map_err(|error| said(&path, error))?;
                if kind.is_dir() {
                    folders.insert(key.clone());
                    key.push(b'/');
                    open.push((path, key));
                    continue;
                }
                // A link to a folder is not followed, because it may be cyclic. A pipe is never
                // read. A file that cannot be examined is answered with the reason.
                if fs::metadata(&path).map_or(true, |what| what.is_file()) {
                    files.insert(key, path);
                }
            }
        }
        if !files.keys().any(|key| is_html(key)) {
            return Err(format!("{}: no page in it: no file ends with .html", root.display()));
        }
        let mut tops: Vec<_> = folders.iter().filter(|key| !key.contains(&b'/')).cloned().collect();
        tops.sort_unstable();
        let hosts = hosts.min(tops.len()).max(1);
        let tops = tops.into_iter().enumerate().map(|(number, key)| (key, number % hosts));
        let (tops, planted) = (tops.collect(), HashMap::new());
        Ok(Site { files, folders, tops, hosts, planted, plants: Vec::new() })
    }

    /// Returns the number of hosts.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Returns all pages, in the order of their names.
    pub fn pages(&self) -> impl Iterator<Item = Address> {
        let pages = self.files.keys().filter(|key| is_html(key));
        pages.map(|key| Address { host: self.owner(key), path: encoded(key).into() })
    }

    /// Returns the planted links.
    pub fn plants(&self) -> &[Plant] {
        &self.plants
    }

    /// Plants this many dead links on pages that the seed chooses: files that do not exist, parts
    /// that pages do not have, and addresses that redirect to themselves.
    pub fn plant(&mut self, count: usize, seed: u64) {
        let pages: Vec<_> = self.files.keys().filter(|key| is_html(key)).cloned().collect();
        for number in 0..count {
            let page = &pages[draw(seed, "plant", "", number as u64) as usize % pages.len()];
            let link = match number % 3 {
                0 => format!("planted-{number}.html"),
                1 => format!("#planted-{number}"),
                _ => format!("planted-around-{number}.html"),
            };
            let html = self.planted.entry(page.clone()).or_default();
            html.push_str(&format!("<a href=\"{link}\">planted</a>\n"));
            self.plants.push((encoded(page)[1..].into(), link));
        }
    }

    /// Returns the host of a file or a folder.
    fn owner(&self, key: &[u8]) -> usize {
        let top = key.split(|byte| *byte == b'/').next().unwrap_or_default();
        self.tops.get(top).copied().unwrap_or(0)
    }

    /// Returns a host's answer to a request for a path. Reads the file on this thread: it is as
    /// long as a page.
    ///
    /// A page has one address: a request for a folder is redirected to its `index.html`.
    pub fn answer(&self, host: usize, path: &str) -> Response {
        let mut key: Vec<u8> = percent_decode_str(path.strip_prefix('/').unwrap_or(path)).collect();
        let owner = self.owner(&key);
        let to = |place: String| Response { location: Some(place), ..Response::bare(301) };
        if owner != host {
            return to(format!("http://{}{path}", name(owner)));
        }
        let is_folder = self.folders.contains(&key);
        if is_folder || key.is_empty() || key.ends_with(b"/") {
            key.extend_from_slice(if is_folder { b"/index.html" } else { b"index.html" });
            let is_there = self.files.contains_key(&key);
            return if is_there { to(encoded(&key)) } else { Response::bare(404) };
        }
        let Some(file) = self.files.get(&key) else {
            let last = key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let around = !self.plants.is_empty() && last.starts_with(AROUND);
            return if around { to(path.into()) } else { Response::bare(404) };
        };
        match fs::read(file) {
            Err(error) => Response::bare(match error.kind() {
                ErrorKind::NotFound => 404,
                ErrorKind::PermissionDenied => 403,
                _ => 500,
            }),
            Ok(mut body) => {
                if let Some(html) = self.planted.get(&key) {
                    body.splice(..0, html.bytes());
                }
                Response { status: 200, html: is_html(&key), location: None, body }
            }
        }
    }
}
