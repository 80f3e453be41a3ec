//! Services, what is behind them, and what lets others reach them.

use jiff::Timestamp;
use serde_json::Value;

use super::{at, items, labels, number_at, or_none, selector};

pub(super) fn cluster_ip(service: &Value, _: Timestamp) -> Value {
    or_none(at(service, "/spec/clusterIP"))
}

pub(super) fn external_ip(service: &Value, _: Timestamp) -> Value {
    let listed: Vec<&str> = items(service, "/spec/externalIPs").filter_map(Value::as_str).collect();
    match at(service, "/spec/type") {
        "ExternalName" => at(service, "/spec/externalName").into(),
        "LoadBalancer" => {
            let given =
                items(service, "/status/loadBalancer/ingress").map(|ingress| match at(ingress, "/ip") {
                    "" => at(ingress, "/hostname"),
                    ip => ip,
                });
            let all: Vec<&str> = given.chain(listed).collect();
            if all.is_empty() { "<pending>".into() } else { all.join(",").into() }
        }
        _ => or_none(listed.join(",")),
    }
}

pub(super) fn ports(service: &Value, _: Timestamp) -> Value {
    let ports = items(service, "/spec/ports").map(|port| {
        let protocol = match at(port, "/protocol") {
            "" => "TCP",
            protocol => protocol,
        };
        match (number_at(port, "/port"), number_at(port, "/nodePort")) {
            (number, 0) => format!("{number}/{protocol}"),
            (number, node) => format!("{number}:{node}/{protocol}"),
        }
    });
    or_none(ports.collect::<Vec<_>>().join(","))
}

pub(super) fn service_selector(service: &Value, _: Timestamp) -> Value {
    or_none(labels(service.pointer("/spec/selector")))
}

/// The first few of many, and how many more there are.
fn few(all: &[String]) -> Value {
    const SHOWN: usize = 3;
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(",");
    match all.len().saturating_sub(SHOWN) {
        0 => or_none(shown),
        more => format!("{shown} + {more} more...").into(),
    }
}

pub(super) fn endpoints(endpoints: &Value, _: Timestamp) -> Value {
    let mut all = Vec::new();
    for subset in items(endpoints, "/subsets") {
        for address in items(subset, "/addresses") {
            let ip = at(address, "/ip");
            let ports: Vec<i64> = items(subset, "/ports").map(|port| number_at(port, "/port")).collect();
            if ports.is_empty() {
                all.push(ip.to_owned());
            }
            all.extend(ports.into_iter().map(|port| format!("{ip}:{port}")));
        }
    }
    few(&all)
}

pub(super) fn slice_ports(slice: &Value, _: Timestamp) -> Value {
    let ports: Vec<String> =
        items(slice, "/ports").map(|port| number_at(port, "/port").to_string()).collect();
    if ports.is_empty() { "<unset>".into() } else { few(&ports) }
}

pub(super) fn slice_endpoints(slice: &Value, _: Timestamp) -> Value {
    let addresses = items(slice, "/endpoints").flat_map(|endpoint| items(endpoint, "/addresses"));
    let addresses: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    if addresses.is_empty() { "<unset>".into() } else { few(&addresses) }
}

pub(super) fn ingress_class(ingress: &Value, _: Timestamp) -> Value {
    or_none(at(ingress, "/spec/ingressClassName"))
}

pub(super) fn ingress_hosts(ingress: &Value, _: Timestamp) -> Value {
    let hosts: Vec<String> = items(ingress, "/spec/rules")
        .map(|rule| at(rule, "/host").to_owned())
        .filter(|host| !host.is_empty())
        .collect();
    if hosts.is_empty() { "*".into() } else { few(&hosts) }
}

pub(super) fn ingress_address(ingress: &Value, _: Timestamp) -> Value {
    let given = items(ingress, "/status/loadBalancer/ingress").map(|ingress| match at(ingress, "/ip") {
        "" => at(ingress, "/hostname"),
        ip => ip,
    });
    given.collect::<Vec<_>>().join(",").into()
}

pub(super) fn ingress_ports(ingress: &Value, _: Timestamp) -> Value {
    if items(ingress, "/spec/tls").next().is_some() { "80, 443" } else { "80" }.into()
}

pub(super) fn pod_selector(policy: &Value, _: Timestamp) -> Value {
    or_none(selector(policy.pointer("/spec/podSelector")))
}

pub(super) fn api_service(service: &Value, _: Timestamp) -> Value {
    match (at(service, "/spec/service/namespace"), at(service, "/spec/service/name")) {
        (_, "") => "Local".into(),
        (namespace, name) => format!("{namespace}/{name}").into(),
    }
}

pub(super) fn api_available(service: &Value, _: Timestamp) -> Value {
    let condition = items(service, "/status/conditions").find(|condition| condition["type"] == "Available");
    match condition {
        Some(condition) if condition["status"] == "True" => "True".into(),
        Some(condition) => format!("{} ({})", at(condition, "/status"), at(condition, "/reason")).into(),
        None => "Unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_shows_how_it_is_reached() {
        let service = json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "selector": {"a": "b"},
            "ports": [{"port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]}});
        assert_eq!(ports(&service, Timestamp::UNIX_EPOCH), "80:30080/TCP,53/UDP");
        assert_eq!(external_ip(&service, Timestamp::UNIX_EPOCH), "<pending>");
        assert_eq!(service_selector(&service, Timestamp::UNIX_EPOCH), "a=b");
        assert_eq!(external_ip(&json!({"spec": {"type": "ClusterIP"}}), Timestamp::UNIX_EPOCH), "<none>");
    }

    #[test]
    fn only_a_few_endpoints_are_shown() {
        let addresses: Vec<Value> = (1..=5).map(|n| json!({"ip": format!("10.0.0.{n}")})).collect();
        let object = json!({"subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]});
        let shown = "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...";
        assert_eq!(endpoints(&object, Timestamp::UNIX_EPOCH), shown);
        assert_eq!(endpoints(&json!({}), Timestamp::UNIX_EPOCH), "<none>");
    }
}
