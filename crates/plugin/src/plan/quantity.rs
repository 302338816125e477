//! Amounts as the API writes them (`250m`, `1Gi`, `1e3`), made comparable.
//!
//! An amount is counted in billionths, the finest that the API keeps, so that nothing is rounded before it is summed. Sources: upstream's
//! `apimachinery/pkg/api/resource`, `quantity.go` and `suffix.go` (v1.36).

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Billionths in one.
const ONE: i128 = 1_000_000_000;
/// Digits behind the point that count.
const DIGITS: usize = 9;

/// Amounts by the name of the resource, in billionths.
pub type Amounts = BTreeMap<String, i128>;

/// The amount in billionths; none: it is written as the API server would not have it.
pub fn parse(text: &str) -> Option<i128> {
    let digits = text
        .find(|it: char| !it.is_ascii_digit() && !matches!(it, '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let (numerator, denominator) = factor(suffix)?;
    let whole = decimal(number)?;
    Some(whole.checked_mul(numerator)? / denominator)
}

/// A decimal number in billionths; what is finer is cut off.
fn decimal(text: &str) -> Option<i128> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: String = part
        .chars()
        .chain("0".repeat(DIGITS).chars())
        .take(DIGITS)
        .collect();
    let are_digits = |text: &str| text.chars().all(|it| it.is_ascii_digit());
    if !are_digits(whole) || !are_digits(&part) || text.trim_matches('.').is_empty() {
        return None;
    }
    let whole: i128 = match whole {
        "" => 0,
        digits => digits.parse().ok()?,
    };
    let part: i128 = part.parse().ok()?;
    Some(sign * (whole.checked_mul(ONE)? + part))
}

/// What a suffix multiplies with, as a fraction.
fn factor(suffix: &str) -> Option<(i128, i128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, ONE),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (ONE, 1),
        "T" => (1_000 * ONE, 1),
        "P" => (1_000_000 * ONE, 1),
        "E" => (ONE * ONE, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            match exponent < 0 {
                true => (1, power),
                false => (power, 1),
            }
        }
    })
}

/// The amounts of a list; what cannot be read counts nothing.
pub fn amounts(list: &BTreeMap<String, Quantity>) -> Amounts {
    let read = |(name, quantity): (&String, &Quantity)| Some((name.clone(), parse(&quantity.0)?));
    list.iter().filter_map(read).collect()
}

/// Adds the one to the other.
pub fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let own = sum.entry(name.clone()).or_default();
        *own = own.saturating_add(*amount);
    }
}

/// An amount as people write it: whole, or with thousandths; memory in binary units.
pub fn told(name: &str, amount: i128) -> String {
    let is_bytes =
        name == "memory" || name == "ephemeral-storage" || name.starts_with("hugepages-");
    match (is_bytes, amount % ONE) {
        (true, _) => format!("{}Mi", amount / ONE / (1 << 20)),
        (false, 0) => (amount / ONE).to_string(),
        (false, _) => format!("{}m", amount / 1_000_000),
    }
}

/// What a pod asks its node for, as much of its spec as says so.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Asked {
    containers: Vec<OfContainer>,
    init_containers: Vec<OfContainer>,
    overhead: BTreeMap<String, Quantity>,
    resources: Requests,
}

/// What one container asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OfContainer {
    resources: Requests,
    /// `Always` for an init container that goes on running.
    restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Requests {
    requests: BTreeMap<String, Quantity>,
}

impl Asked {
    /// Of a pod that was read in full.
    pub fn of(spec: &PodSpec) -> Self {
        let asked = serde_json::to_value(spec).and_then(serde_json::from_value);
        asked.unwrap_or_default()
    }

    /// What the scheduler counts: the containers together, or an init container with the sidecars before it if that is more; the pod's own
    /// requests in place of them where it has any; the overhead; and one pod. Source: upstream's
    /// `component-helpers/resource/helpers.go`, `PodRequests` and `AggregateContainerRequests` (v1.36).
    pub fn amounts(&self) -> Amounts {
        let mut sum = Amounts::new();
        for container in &self.containers {
            add(&mut sum, &amounts(&container.resources.requests));
        }
        let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
        for container in &self.init_containers {
            let own = amounts(&container.resources.requests);
            let stays = container.restart_policy.as_deref() == Some("Always");
            let mut now = sidecars.clone();
            add(&mut now, &own);
            sidecars = if stays { now.clone() } else { sidecars };
            raise(&mut peak, &now);
        }
        add(&mut sum, &sidecars);
        raise(&mut sum, &peak);
        sum.extend(amounts(&self.resources.requests));
        add(&mut sum, &amounts(&self.overhead));
        sum.insert("pods".to_owned(), ONE);
        sum
    }
}

/// Makes each amount as large as the other one at least.
fn raise(sum: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let own = sum.entry(name.clone()).or_default();
        *own = (*own).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn amounts_are_read_as_the_api_writes_them() {
        for (text, billionths) in [
            ("1", ONE),
            ("250m", 250_000_000),
            ("0.5", ONE / 2),
            (".5", ONE / 2),
            ("-2", -2 * ONE),
            ("100n", 100),
            ("1k", 1000 * ONE),
            ("1Ki", 1024 * ONE),
            ("1.5Gi", 3 * (1 << 29) * ONE),
            ("1e3", 1000 * ONE),
            ("5E-1", ONE / 2),
            ("2E", 2 * ONE * ONE * ONE),
        ] {
            assert_eq!(parse(text), Some(billionths), "{text}");
        }
        for text in ["1x", "Gi1", "1.2.3", "1e", "--1", "1-", "", "m", "."] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_amount_is_told_as_people_write_it() {
        assert_eq!(told("cpu", ONE / 4), "250m");
        assert_eq!(told("cpu", 2 * ONE), "2");
        assert_eq!(told("memory", (1 << 30) * ONE), "1024Mi");
    }

    fn asked(spec: serde_json::Value) -> Amounts {
        let asked: Asked = serde_json::from_value(spec).expect("a spec");
        asked.amounts()
    }

    fn cpu(amount: &str) -> serde_json::Value {
        json!({"resources": {"requests": {"cpu": amount}}})
    }

    /// The scheduler's own rule, so that what fits here fits there.
    #[test]
    fn a_pod_asks_for_its_containers_or_for_its_largest_init_container() {
        let whole = asked(json!({"containers": [cpu("1"), cpu("500m")]}));
        assert_eq!(whole.get("cpu"), Some(&(3 * ONE / 2)));
        assert_eq!(whole.get("pods"), Some(&ONE));
        let init = json!({"containers": [cpu("1")], "initContainers": [cpu("3"), cpu("2")]});
        assert_eq!(asked(init).get("cpu"), Some(&(3 * ONE)));
        let mut sidecar = cpu("1");
        json_patch::merge(&mut sidecar, &json!({"restartPolicy": "Always"}));
        let with_sidecar = json!({"containers": [cpu("1")], "initContainers": [sidecar, cpu("2")]});
        assert_eq!(asked(with_sidecar).get("cpu"), Some(&(3 * ONE)));
        let pod_level = json!({"containers": [cpu("1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}});
        assert_eq!(asked(pod_level).get("cpu"), Some(&(5 * ONE)));
    }
}
