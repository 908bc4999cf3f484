//! Addresses of pages, and targets of links.
//!
//! The hosts have names, `host-0.test` and so on, in a domain that is reserved for tests. So an
//! address is the same in every run, whatever ports the hosts listen on.

use std::sync::Arc;

use url::Url;

/// The address of a page or a file: its host, and the encoded path. The query is left out, because
/// a folder of files ignores it: so a page has one address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The number of the host.
    pub host: usize,
    /// The path, which begins with a slash.
    pub path: Arc<str>,
}

/// Returns the name of a host.
pub fn name(host: usize) -> String {
    format!("host-{host}.test")
}

impl Address {
    /// Returns its URL.
    ///
    /// # Errors
    /// The path is invalid; one that was taken from a URL is valid.
    pub fn url(&self) -> Result<Url, url::ParseError> {
        Url::parse(&format!("http://{}{}", name(self.host), self.path))
    }

    /// Returns the path in the folder, for display.
    pub fn shown(&self) -> &str {
        self.path.strip_prefix('/').unwrap_or(&self.path)
    }
}

/// The target of a link.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// One of the hosts, and a part of the page, encoded.
    Here(Address, Option<String>),
    /// Another host, or a scheme that no HTTP client serves: `mailto:`, `data:`.
    Elsewhere,
    /// None: the link is invalid, for this reason.
    Nowhere(String),
}

/// Returns the target of a link on a page.
pub fn lead(base: &Url, link: &str, hosts: usize) -> Place {
    let url = match base.join(link) {
        Ok(url) => url,
        Err(error) => return Place::Nowhere(format!("no URL: {error}")),
    };
    let number = url.host_str().and_then(|host| host.strip_prefix("host-")?.strip_suffix(".test"));
    let host = number.and_then(|number| number.parse().ok()).filter(|host| *host < hosts);
    let Some(host) = host.filter(|_| url.scheme() == "http" && url.port().is_none()) else {
        return Place::Elsewhere;
    };
    let path = url.path().into();
    let part = url.fragment().map(str::to_owned);
    Place::Here(Address { host, path }, part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(host: usize, path: &str, part: Option<&str>) -> Place {
        Place::Here(Address { host, path: path.into() }, part.map(str::to_owned))
    }

    #[test]
    fn links_lead_where_browsers_follow_them() {
        let page = Address { host: 1, path: "/a/b/page.html".into() }.url().unwrap();
        for (link, place) in [
            ("other.html", here(1, "/a/b/other.html", None)),
            ("../x y.html#one%20two", here(1, "/a/x%20y.html", Some("one%20two"))),
            ("/top/?q=1#", here(1, "/top/", Some(""))),
            ("#part", here(1, "/a/b/page.html", Some("part"))),
            ("../../../../up.html", here(1, "/up.html", None)),
            ("http://host-0.test/a", here(0, "/a", None)),
            ("http://host-2.test/a", Place::Elsewhere),
            ("https://host-0.test/a", Place::Elsewhere),
            ("http://host-0.test:81/a", Place::Elsewhere),
            ("//example.com/", Place::Elsewhere),
            ("mailto:ada@example.com", Place::Elsewhere),
        ] {
            assert_eq!(lead(&page, link, 2), place, "{link}");
        }
        assert!(matches!(lead(&page, "http://[/", 2), Place::Nowhere(_)));
    }
}
