use super::*;

#[test]
fn a_policy_without_flags_observes_and_says_so() {
    let text = text(&Args::default()).expect("YAML");
    assert_eq!(
        text,
        "---
# Mode Observe, the API's default: it reports what would be done and changes
# nothing.
apiVersion: nodefencing.io/v1alpha1
kind: NodeFencingPolicy
metadata:
  name: workers
spec:
  nodeSelector:
    matchExpressions:
    - key: node-role.kubernetes.io/control-plane
      operator: DoesNotExist
"
    );
}

#[test]
fn flags_have_their_places_in_the_policy() {
    let args = Args {
        name: Some("rack-7".to_owned()),
        selector: Some(selector("rack=7").expect("a selector")),
        mode: Some(Mode::PowerOff),
        device_selector: Some(selector("tier=bmc").expect("a selector")),
        wait: Some(120),
        min_healthy: Some(MinHealthy::Count(3)),
        max_concurrent: Some(2),
        manual_approval: true,
        power_on: true,
    };
    let text = text(&args).expect("YAML");
    assert_eq!(
        text,
        "---
# Mode PowerOff: it powers the machine off, verifies that, and acts.
apiVersion: nodefencing.io/v1alpha1
kind: NodeFencingPolicy
metadata:
  name: rack-7
spec:
  budget:
    maxConcurrent: 2
    minHealthy: 3
  fence:
    approval:
      mode: Manual
    levels:
    - deviceSelector:
        matchLabels:
          tier: bmc
      name: bmc
    mode: PowerOff
  nodeSelector:
    matchLabels:
      rack: \"7\"
  powerOn:
    policy: AfterRecovery
  unhealthyConditions:
  - durationSeconds: 120
    status: Unknown
    type: Ready
"
    );
}

#[test]
fn a_mode_that_acts_has_a_level() {
    let args = Args {
        mode: Some(Mode::ConfirmOnly),
        ..Args::default()
    };
    let text = text(&args).expect("YAML");
    assert!(text.contains("# Mode ConfirmOnly: it acts on"), "{text}");
    assert!(text.contains("    levels:\n    - name: bmc\n"), "{text}");
}

#[test]
fn no_machine_is_turned_on_that_was_not_turned_off() {
    let args = Args {
        power_on: true,
        ..Args::default()
    };
    let error = text(&args).expect_err("a contradiction").to_string();
    assert!(error.contains("--mode PowerOff"), "{error}");
}

#[test]
fn what_the_api_would_refuse_is_refused_on_the_command_line() {
    for text in ["9s", "25h", "90"] {
        assert!(wait(text).is_err(), "{text}");
    }
    assert_eq!(wait("24h"), Ok(86_400));
    for text in ["101%", "-1", "half", "100001"] {
        assert!(min_healthy(text).is_err(), "{text}");
    }
    assert_eq!(min_healthy("50%"), Ok(MinHealthy::Percent(50)));
    assert_eq!(min_healthy("2"), Ok(MinHealthy::Count(2)));
}

/// As kubectl's `-l` it selects everything, and in a script nobody has meant it.
#[test]
fn a_selector_that_is_empty_is_told_to_select_the_control_plane_too() {
    let of = |labels: &str| {
        let args = Args {
            selector: Some(selector(labels).expect("a selector")),
            ..Args::default()
        };
        text(&args).expect("YAML")
    };
    let all = of("");
    let words = "# Nodes: every one, control plane included, because `--selector` is empty.\n";
    assert!(all.contains(words), "{all}");
    assert!(!of("rack=7").contains("# Nodes"));
}
