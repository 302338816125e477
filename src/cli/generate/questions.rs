//! The questions for a policy, in the order in which people think about it; an empty answer takes what stands in brackets. An answer that breaks a
//! rule is asked for again, with the rule.

use super::super::Error;
use super::super::mode::Mode;
use super::devices::object_name;
use super::policy::{Args, NAME, WORKERS, min_healthy, wait};
use super::selector::selector;
use clap::ValueEnum as _;

/// How often a question is asked: whoever never answers it well may be no human.
const TRIES: usize = 5;

/// Asks them. `ask` shows a question and has the line that was typed.
///
/// # Errors
/// Those of `ask`, and no usable answer after some tries.
pub fn answered(mut ask: impl FnMut(&str) -> Result<String, Error>) -> Result<Args, Error> {
    let ask = &mut ask;
    let name = until_well(ask, &format!("Name of the policy [{NAME}]:"), object_name)?;
    let nodes = format!("Its nodes, as kubectl's -l [{WORKERS}]:");
    let selector_ = until_well(ask, &nodes, selector)?;
    let modes = "How far may it go: Observe (report), ConfirmOnly (act on a machine that is off), PowerOff [Observe]:";
    let mode = until_well(ask, modes, mode)?;
    let devices = "Labels of the devices to use, such as tier=bmc [all of a node]:";
    let device_selector = until_well(ask, devices, selector)?;
    let wait = until_well(ask, "How long may a node be silent [60s]:", wait)?;
    let healthy = "How many nodes must be Ready, a number or a percentage [51%]:";
    let min_healthy = until_well(ask, healthy, min_healthy)?;
    let approval = until_well(ask, "Ask a human before each fence [no]:", yes_or_no)?;
    let power_on = match mode {
        Some(Mode::PowerOff) => {
            let question = "Turn the machine on again once its volumes have left it [no]:";
            until_well(ask, question, yes_or_no)?
        }
        _ => None,
    };
    Ok(Args {
        name,
        selector: selector_,
        mode,
        device_selector,
        wait,
        min_healthy,
        max_concurrent: None,
        manual_approval: approval.unwrap_or_default(),
        power_on: power_on.unwrap_or_default(),
    })
}

/// None: the default.
fn until_well<T>(
    ask: &mut impl FnMut(&str) -> Result<String, Error>,
    question: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Error> {
    let mut asked = question.to_owned();
    for _ in 0..TRIES {
        let answer = ask(&asked)?;
        if answer.is_empty() {
            return Ok(None);
        }
        match read(&answer) {
            Ok(value) => return Ok(Some(value)),
            Err(rule) => asked = format!("`{answer}` {rule}\n{question}"),
        }
    }
    Err(Error::No(format!(
        "`{question}` has no usable answer after {TRIES} tries; give the answers by flags, see --help"
    )))
}

fn mode(text: &str) -> Result<Mode, String> {
    Mode::from_str(text, true).map_err(|_| "must be Observe, ConfirmOnly or PowerOff".to_owned())
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err("must be yes or no".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy;
    use super::*;
    use std::cell::RefCell;

    /// The policy that these answers make, and all that was asked.
    fn talk(answers: &[&str]) -> (Result<Args, Error>, Vec<String>) {
        let asked = RefCell::new(Vec::new());
        let mut answers = answers.iter();
        let done = answered(|question| {
            asked.borrow_mut().push(question.to_owned());
            Ok((*answers.next().expect("an answer")).to_owned())
        });
        (done, asked.into_inner())
    }

    #[test]
    fn no_answers_are_the_defaults() {
        let (args, asked) = talk(&[""; 7]);
        assert_eq!(args.expect("answers"), Args::default());
        assert_eq!(asked.len(), 7);
    }

    #[test]
    fn answers_are_what_flags_would_be() {
        let answers = [
            "rack-7", "rack=7", "poweroff", "tier=bmc", "2m", "3", "yes", "y",
        ];
        let (args, _) = talk(&answers);
        let text = policy::text(&args.expect("answers")).expect("YAML");
        assert_eq!(
            text,
            "---
# Mode PowerOff: it turns the machine off, verifies that it is, and acts.
apiVersion: nodefencing.io/v1alpha1
kind: NodeFencingPolicy
metadata:
  name: rack-7
spec:
  budget:
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
    fn an_answer_that_breaks_a_rule_is_asked_for_again_with_the_rule() {
        let answers = ["", "", "Shoot", "Observe", "", "5s", "", "", ""];
        let (args, asked) = talk(&answers);
        assert_eq!(args.expect("answers").mode, Some(Mode::Observe));
        assert!(asked[3].starts_with("`Shoot` must be Observe"), "{asked:?}");
        assert!(asked[6].starts_with("`5s` must be from 10s"), "{asked:?}");
        let (args, _) = talk(&["Not A Name"; TRIES]);
        assert!(
            args.expect_err("no answer")
                .to_string()
                .contains("by flags")
        );
    }
}
