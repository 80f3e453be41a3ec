//! Media types: what a client sends, and what it wants to see.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

use super::status::Failure;

/// The media types that are understood in requests, as errors list them.
const BODIES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// How the body of a request is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Yaml,
    Protobuf,
}

impl BodyFormat {
    /// Reads `Content-Type`; without one, a body is JSON.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Failure> {
        match media_type(headers.get(CONTENT_TYPE)).as_deref() {
            None | Some("" | "application/json" | "*/*") => Ok(Self::Json),
            Some("application/yaml") => Ok(Self::Yaml),
            Some("application/vnd.kubernetes.protobuf") => Ok(Self::Protobuf),
            Some(_) => Err(Failure::unsupported_media_type(&BODIES)),
        }
    }
}

/// What kind of patch a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchFormat {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchFormat {
    /// Reads `Content-Type`. Custom resources have no strategic merge patch.
    pub(crate) fn of(headers: &HeaderMap, custom: bool) -> Result<Self, Failure> {
        match media_type(headers.get(CONTENT_TYPE)).as_deref() {
            Some("application/json-patch+json") => Ok(Self::Json),
            Some("application/merge-patch+json") => Ok(Self::Merge),
            Some("application/apply-patch+yaml") => Ok(Self::Apply),
            Some("application/strategic-merge-patch+json") if !custom => Ok(Self::Strategic),
            _ if custom => Err(Failure::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
            ])),
            _ => Err(Failure::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
                "application/apply-patch+yaml",
            ])),
        }
    }
}

fn media_type(header: Option<&HeaderValue>) -> Option<String> {
    let text = header?.to_str().unwrap_or("?");
    Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// How the client wants to see objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// As they are.
    Whole,
    /// Only their metadata.
    Metadata,
    /// As rows of a table.
    Table,
}

/// What the `Accept` header says, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accept {
    clauses: Vec<Clause>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Clause {
    media_type: String,
    kind: String,
    group: String,
    version: String,
}

/// More clauses than any client sends.
const MAX_CLAUSES: usize = 32;

impl Accept {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let texts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let clauses = texts.flat_map(|text| text.split(',')).take(MAX_CLAUSES).map(Clause::parse);
        Self { clauses: clauses.collect() }
    }

    /// The first way of the client's that JSON can satisfy.
    pub(crate) fn view(&self) -> Result<View, Failure> {
        if self.clauses.is_empty() {
            return Ok(View::Whole);
        }
        let view = self.clauses.iter().find_map(Clause::view);
        view.ok_or_else(|| Failure::not_acceptable(&BODIES))
    }

    /// The version in which discovery is wanted in one document, if it is.
    pub(crate) fn aggregated_discovery(&self) -> Option<&'static str> {
        for clause in self.clauses.iter().filter(|clause| clause.is_json()) {
            match (clause.kind.as_str(), clause.group.as_str(), clause.version.as_str()) {
                ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => return Some("v2"),
                ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => return Some("v2beta1"),
                ("", ..) => return None,
                _ => {}
            }
        }
        None
    }
}

impl Clause {
    fn parse(text: &str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let mut clause = Self { media_type, ..Self::default() };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "as" => clause.kind = value.trim().to_owned(),
                "g" => clause.group = value.trim().to_owned(),
                "v" => clause.version = value.trim().to_owned(),
                _ => {}
            }
        }
        clause
    }

    fn is_json(&self) -> bool {
        matches!(self.media_type.as_str(), "application/json" | "application/yaml" | "application/*" | "*/*")
    }

    fn view(&self) -> Option<View> {
        if !self.is_json() {
            return None;
        }
        match (self.kind.as_str(), self.group.as_str(), self.version.as_str()) {
            ("", ..) => Some(View::Whole),
            ("Table", "meta.k8s.io", "v1") => Some(View::Table),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
                Some(View::Metadata)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(text: &'static str) -> Accept {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(text));
        Accept::of(&headers)
    }

    #[test]
    fn the_first_clause_that_json_satisfies_wins() {
        let cases = [
            ("application/json", Ok(View::Whole)),
            ("application/vnd.kubernetes.protobuf, */*", Ok(View::Whole)),
            ("application/vnd.kubernetes.protobuf,application/json", Ok(View::Whole)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Ok(View::Table)),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json", Ok(View::Whole)),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                Ok(View::Metadata),
            ),
            ("application/vnd.kubernetes.protobuf", Err(406)),
            ("text/html", Err(406)),
        ];
        for (text, view) in cases {
            assert_eq!(accept(text).view().map_err(|failure| failure.code()), view, "{text}");
        }
        assert_eq!(Accept::of(&HeaderMap::new()).view(), Ok(View::Whole));
    }

    #[test]
    fn discovery_in_one_document_is_only_given_to_who_asks_first() {
        let new = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(accept(new).aggregated_discovery(), Some("v2"));
        assert_eq!(accept("application/json, */*").aggregated_discovery(), None);
    }

    #[test]
    fn strategic_patches_are_for_built_in_kinds() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/strategic-merge-patch+json"));
        assert_eq!(PatchFormat::of(&headers, false), Ok(PatchFormat::Strategic));
        assert_eq!(PatchFormat::of(&headers, true).map_err(|failure| failure.code()), Err(415));
    }
}
