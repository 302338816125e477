//! What can be typed at the prompt, read from a line.

/// How the prompt explains itself.
pub(super) const HELP: &str = "  cut NODE             cut the machine's power: its processes are killed, and their connections are closed
  dark NODE            the same as when the mains fail: nothing leaves the machine any more
  restore NODE         give it back: the machine boots
  partition NODE       no contact with the API server; containers go on writing
  hang NODE            the kubelet hangs; containers go on writing
  heal NODE            end the partition, wake the kubelet
  bmc NODE dark|lit    the BMC loses its own power, or has it again
  lie NODE off|on      the BMC says so whatever is true, and takes commands without effect
  honest NODE          the BMC says what is true again, and does what it is asked
  status               machines, and where the pods are
  check                was any volume written by two machines?
  help                 this
  quit                 end everything (so does Ctrl-C)
  NODE is a node's name or its number";

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Something happens to the machine of this node.
    To(String, Deed),
    /// What is so?
    Status,
    /// Are the volumes whole?
    Check,
    /// What can be typed?
    Help,
    /// The end.
    Quit,
}

/// What happens to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// Its power is cut.
    Cut,
    /// Its power is cut, and nothing leaves it any more.
    Dark,
    /// Its power is restored.
    Restore,
    /// Its node loses the API server.
    Partition,
    /// Its kubelet hangs.
    Hang,
    /// Partition and hang end.
    Heal,
    /// Its BMC loses power, or gets it back.
    Bmc {
        /// Does it answer?
        lit: bool,
    },
    /// Its BMC says this of its power, or the truth.
    Says(Option<Claim>),
}

/// What a BMC that lies says of the power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// There is none.
    Off,
    /// There is.
    On,
}

impl Claim {
    /// As Redfish has it (`PowerState` of DSP2046).
    pub(super) fn power_state(self) -> &'static str {
        match self {
            Self::Off => "Off",
            Self::On => "On",
        }
    }
}

impl Command {
    /// Reads a line; nothing for an empty one or a comment. The error is for the person who typed it.
    pub(super) fn parse(line: &str) -> Result<Option<Self>, String> {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<_> = line.split_whitespace().collect();
        let to = |node: &str, deed| Ok(Some(Self::To(node_name(node), deed)));
        match words.as_slice() {
            [] => Ok(None),
            ["cut", node] => to(node, Deed::Cut),
            ["dark", node] => to(node, Deed::Dark),
            ["restore", node] => to(node, Deed::Restore),
            ["partition", node] => to(node, Deed::Partition),
            ["hang", node] => to(node, Deed::Hang),
            ["heal", node] => to(node, Deed::Heal),
            ["bmc", node, "dark"] => to(node, Deed::Bmc { lit: false }),
            ["bmc", node, "lit"] => to(node, Deed::Bmc { lit: true }),
            ["lie", node, "off"] => to(node, Deed::Says(Some(Claim::Off))),
            ["lie", node, "on"] => to(node, Deed::Says(Some(Claim::On))),
            ["honest", node] => to(node, Deed::Says(None)),
            ["status"] => Ok(Some(Self::Status)),
            ["check"] => Ok(Some(Self::Check)),
            ["help" | "?"] => Ok(Some(Self::Help)),
            ["quit" | "exit"] => Ok(Some(Self::Quit)),
            _ => Err(format!("`{}` is not understood; try `help`", line.trim())),
        }
    }
}

/// `2` is short for `node-2`.
fn node_name(word: &str) -> String {
    match word.parse::<u16>() {
        Ok(number) => format!("node-{number}"),
        Err(_) => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_the_help_says() {
        let to = |deed| Ok(Some(Command::To("node-2".to_owned(), deed)));
        assert_eq!(Command::parse(" cut  node-2 "), to(Deed::Cut));
        assert_eq!(Command::parse("restore 2 # by number"), to(Deed::Restore));
        assert_eq!(Command::parse("bmc 2 dark"), to(Deed::Bmc { lit: false }));
        assert_eq!(Command::parse("dark 2"), to(Deed::Dark));
        let off = Deed::Says(Some(Claim::Off));
        assert_eq!(Command::parse("lie 2 off"), to(off));
        assert_eq!(Command::parse("honest 2"), to(Deed::Says(None)));
        assert_eq!(Command::parse("# nothing"), Ok(None));
        for line in HELP.lines().filter(|line| !line.contains(" is a ")) {
            let usage = line[2..].split("  ").next().unwrap_or_default();
            let line = usage.replace("NODE", "node-1");
            let line = line.replace("dark|lit", "lit").replace("off|on", "on");
            assert!(matches!(Command::parse(&line), Ok(Some(_))), "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said_and_not_guessed() {
        let lines = [
            "cut",
            "cut node-1 node-2",
            "bmc node-1 off",
            "lie 1",
            "CUT 1",
        ];
        for line in lines {
            let error = Command::parse(line).expect_err("nonsense");
            assert!(error.contains(line) && error.contains("help"), "{error}");
        }
    }
}
