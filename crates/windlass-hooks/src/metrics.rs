//! Metrics under the names and labels that dashboards for Cluster API already query.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_api::hooks::{Hook, ResponseStatus};
use windlass_api::names::{HOOKS_GROUP, HOOKS_VERSION};

/// Counter of calls.
pub const REQUESTS_TOTAL: &str = "capi_runtime_sdk_requests_total";
/// Histogram of how long calls took.
pub const REQUEST_DURATION_SECONDS: &str = "capi_runtime_sdk_request_duration_seconds";
/// Upper bounds of the histogram's buckets in seconds, as upstream has them.
pub const DURATION_BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// A broken extension could send another status each time, and every one would be kept for ever.
const MAX_FOREIGN_STATUSES: usize = 16;
const MAX_FOREIGN_STATUS_LENGTH: usize = 32;

/// Counts calls. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Series>>);

#[derive(Debug, Default)]
struct Series {
    requests: BTreeMap<RequestLabels, u64>,
    durations: BTreeMap<DurationLabels, Histogram>,
    foreign_statuses: BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestLabels {
    host: String,
    hook: &'static str,
    code: Option<u16>,
    status: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DurationLabels {
    host: String,
    hook: &'static str,
}

#[derive(Debug, Default)]
struct Histogram {
    /// Of each bucket alone; sums are made when the histogram is written.
    counts: [u64; DURATION_BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Metrics {
    /// No calls yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a call: `code` is the HTTP status if there was one, `status` that of the answer if there was
    /// one.
    pub(crate) fn observe(
        &self,
        hook: Hook,
        host: &str,
        code: Option<u16>,
        status: Option<&ResponseStatus>,
        took: Duration,
    ) {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let status = series.status_label(status);
        let (host, hook) = (host.to_owned(), hook.name());
        *series.requests.entry(RequestLabels { host: host.clone(), hook, code, status }).or_default() += 1;
        series.durations.entry(DurationLabels { host, hook }).or_default().observe(took.as_secs_f64());
    }

    /// All series in the text format of Prometheus, in a fixed order.
    pub fn render(&self) -> String {
        let series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = series.render(&mut text);
        text
    }
}

impl Series {
    fn status_label(&mut self, status: Option<&ResponseStatus>) -> String {
        let sent = match status {
            Some(known @ (ResponseStatus::Success | ResponseStatus::Failure)) => {
                return known.as_str().to_owned();
            }
            Some(ResponseStatus::Unknown(sent)) => sent,
            None => return "Unknown".to_owned(),
        };
        let known = self.foreign_statuses.contains(sent);
        let kept = sent.len() <= MAX_FOREIGN_STATUS_LENGTH
            && (known || self.foreign_statuses.len() < MAX_FOREIGN_STATUSES);
        if !kept {
            return "Unknown".to_owned();
        }
        self.foreign_statuses.insert(sent.clone());
        sent.clone()
    }

    fn render(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "# HELP {REQUESTS_TOTAL} Calls of runtime hooks, by answer.")?;
        writeln!(text, "# TYPE {REQUESTS_TOTAL} counter")?;
        for (labels, count) in &self.requests {
            let code = labels.code.map_or("<error>".to_owned(), |code| code.to_string());
            let common = common_labels(&labels.host, labels.hook);
            let status = escape(&labels.status);
            writeln!(text, "{REQUESTS_TOTAL}{{code=\"{code}\",{common},status=\"{status}\"}} {count}")?;
        }
        writeln!(text, "# HELP {REQUEST_DURATION_SECONDS} How long calls of runtime hooks took.")?;
        writeln!(text, "# TYPE {REQUEST_DURATION_SECONDS} histogram")?;
        for (labels, histogram) in &self.durations {
            let labels = common_labels(&labels.host, labels.hook);
            let mut so_far = 0;
            for (bound, count) in DURATION_BUCKETS.iter().zip(histogram.counts) {
                so_far += count;
                writeln!(text, "{REQUEST_DURATION_SECONDS}_bucket{{{labels},le=\"{bound}\"}} {so_far}")?;
            }
            let Histogram { count, sum, .. } = histogram;
            writeln!(text, "{REQUEST_DURATION_SECONDS}_bucket{{{labels},le=\"+Inf\"}} {count}")?;
            writeln!(text, "{REQUEST_DURATION_SECONDS}_sum{{{labels}}} {sum}")?;
            writeln!(text, "{REQUEST_DURATION_SECONDS}_count{{{labels}}} {count}")?;
        }
        Ok(())
    }
}

impl Histogram {
    fn observe(&mut self, seconds: f64) {
        if let Some(bucket) = DURATION_BUCKETS.iter().position(|bound| seconds <= *bound) {
            self.counts[bucket] += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }
}

fn common_labels(host: &str, hook: &str) -> String {
    let host = escape(host);
    format!("group=\"{HOOKS_GROUP}\",hook=\"{hook}\",host=\"{host}\",version=\"{HOOKS_VERSION}\"")
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_under_upstreams_names() {
        let metrics = Metrics::new();
        let took = Duration::from_millis(30);
        let hook = Hook::BeforeClusterUpgrade;
        metrics.observe(hook, "h:443", Some(200), Some(&ResponseStatus::Success), took);
        metrics.observe(hook, "h:443", Some(200), Some(&ResponseStatus::Success), took);
        metrics.observe(hook, "h:443", None, None, Duration::from_secs(100));
        let text = metrics.render();
        let labels = r#"group="hooks.runtime.cluster.x-k8s.io",hook="BeforeClusterUpgrade",host="h:443",version="v1alpha1""#;
        for line in [
            format!("capi_runtime_sdk_requests_total{{code=\"200\",{labels},status=\"Success\"}} 2"),
            format!("capi_runtime_sdk_requests_total{{code=\"<error>\",{labels},status=\"Unknown\"}} 1"),
            format!("capi_runtime_sdk_request_duration_seconds_bucket{{{labels},le=\"0.025\"}} 0"),
            format!("capi_runtime_sdk_request_duration_seconds_bucket{{{labels},le=\"0.05\"}} 2"),
            format!("capi_runtime_sdk_request_duration_seconds_bucket{{{labels},le=\"1\"}} 2"),
            format!("capi_runtime_sdk_request_duration_seconds_bucket{{{labels},le=\"60\"}} 2"),
            format!("capi_runtime_sdk_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 3"),
            format!("capi_runtime_sdk_request_duration_seconds_sum{{{labels}}} 100.06"),
            format!("capi_runtime_sdk_request_duration_seconds_count{{{labels}}} 3"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} not in\n{text}");
        }
        assert_eq!(text.lines().count(), 4 + 2 + 26);
    }

    #[test]
    fn statuses_an_extension_makes_up_are_kept_up_to_a_limit() {
        let metrics = Metrics::new();
        let observe = |status: String| {
            let status = ResponseStatus::Unknown(status);
            metrics.observe(Hook::UpdateMachine, "h", Some(200), Some(&status), Duration::ZERO);
        };
        observe("say \"hi\"\n\\".to_owned());
        observe("x".repeat(1000));
        (0..100).for_each(|number| observe(format!("status {number}")));
        let text = metrics.render();
        assert!(text.contains(r#"status="say \"hi\"\n\\""#), "{text}");
        let series = text.lines().filter(|line| line.starts_with(REQUESTS_TOTAL)).count();
        assert_eq!(series, MAX_FOREIGN_STATUSES + 1);
    }
}
