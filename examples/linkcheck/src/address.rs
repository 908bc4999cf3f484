//! Where links lead.
//!
//! The hosts have names, `host-0.test` and so on, in a domain that is nobody's. So an address is
//! the same in every run, whatever ports the hosts listen on.

use std::sync::Arc;

use url::Url;

/// A page or a file: its host, and the path, encoded. A folder of files is the same whatever the
/// query is, so that is left out: a page has one address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The number of the host.
    pub host: usize,
    /// Begins with a slash.
    pub path: Arc<str>,
}

/// The name of a host.
pub fn name(host: usize) -> String {
    format!("host-{host}.test")
}

impl Address {
    /// The URL of it.
    ///
    /// # Errors
    /// The path is none; one that came out of a URL is.
    pub fn url(&self) -> Result<Url, url::ParseError> {
        Url::parse(&format!("http://{}{}", name(self.host), self.path))
    }

    /// As a person reads it: the path in the folder.
    pub fn shown(&self) -> &str {
        self.path.strip_prefix('/').unwrap_or(&self.path)
    }
}

/// Where a link leads.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// To one of the hosts, and to a part of the page, encoded.
    Here(Address, Option<String>),
    /// To another host, or it is for no HTTP client at all: `mailto:`, `data:`.
    Elsewhere,
    /// It is no link: why.
    Nowhere(String),
}

/// Where a link on a page leads.
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
