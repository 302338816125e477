//! Which agents are run, and with which parameters: those whose code was read (fence-agents 4.12.1 of Debian 12), and no other.
//! Between that and 4.16.0 of Debian 13 these agents and their library changed in their help and in how they quote, not in what they send, read and
//! return for status, on and off.
//!
//! An agent is on the list if it reports Off for the device's own word for off alone, reaches the device over the network with a login that
//! a stranger on the way does not get, and sends a hard off. [`REFUSED`] says why of those that somebody may miss. What an agent drops of the
//! device's answer, such as a power fault or a sleeping state (`fence_ipmilan`), is lost.
//!
//! Parameters are a list, too. An agent has some that run a program or a shell of the user's choice (`password_script`, `ipmitool_path`), that
//! write what it knows into a file (`debug_file`), and that change what Off means (`missing_as_off`, `method`): none of them can be named.

/// An agent that is run.
#[derive(Debug)]
pub struct Agent {
    /// Its name, which is that of its file.
    pub name: &'static str,
    /// The port that its device listens at unless `ipport` says otherwise.
    pub port: u16,
    /// What a user may set.
    pub parameters: &'static [Parameter],
    /// It can write an IPv6 address to its device. One that adds a port to it without brackets would ask another host.
    pub takes_ipv6: bool,
    /// What it is given beside that, whatever the user says.
    pub fixed: &'static [(&'static str, &'static str)],
}

/// A parameter of an agent.
#[derive(Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it may hold.
    pub holds: Holds,
    /// Where a user sets nothing.
    pub absent: Absent,
}

/// What a parameter may hold. Agents put most of them on a command line as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// The address of the device.
    Address,
    /// A port of TCP or UDP.
    Port,
    /// The number of an outlet: one, because agents switch the first of several, and read all of them.
    Plug,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Any text, which the agent puts into quotes.
    Text,
    /// The same, and only from a Secret.
    Secret,
}

/// What stands in the place of a parameter that a user does not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// Nothing: the agent has a default that is fine.
    Fine,
    /// This value, because the agent's own default is not.
    Is(&'static str),
    /// The user has to.
    Refused,
}

const fn parameter(name: &'static str, holds: Holds, absent: Absent) -> Parameter {
    Parameter {
        name,
        holds,
        absent,
    }
}

/// Name of the parameter with the address.
pub const IP: &str = "ip";
/// Name of the parameter with the port.
pub const PORT: &str = "ipport";
/// Name of the parameter with the outlet.
pub const PLUG: &str = "plug";

/// What every agent is given: no pause before it acts, none after it, and an on that is not sent again.
pub const ALWAYS: [(&str, &str); 3] = [("delay", "0"), ("power_wait", "0"), ("retry_on", "0")];

const IPMI: &[Parameter] = &[
    parameter(IP, Holds::Address, Absent::Refused),
    parameter(PORT, Holds::Port, Absent::Fine),
    parameter("username", Holds::Text, Absent::Refused),
    parameter("password", Holds::Secret, Absent::Refused),
    parameter("cipher", Holds::OneOf(&["3", "17"]), Absent::Is("17")),
    parameter(
        "privlvl",
        Holds::OneOf(&["operator", "administrator"]),
        Absent::Is("operator"),
    ),
];

/// `fence_ipmilan`, which has other names for other makers' BMCs. Left alone, some of them take IPMI 1.5, and all the most powerful account.
const fn ipmi(name: &'static str) -> Agent {
    Agent {
        name,
        port: 623,
        parameters: IPMI,
        takes_ipv6: true,
        fixed: &[("lanplus", "1"), ("method", "onoff")],
    }
}

/// The agents that are run.
pub const AGENTS: [Agent; 8] = [
    ipmi("fence_ipmilan"),
    ipmi("fence_ipmilanplus"),
    ipmi("fence_idrac"),
    ipmi("fence_ilo3"),
    ipmi("fence_ilo4"),
    ipmi("fence_ilo5"),
    ipmi("fence_imm"),
    Agent {
        name: "fence_eaton_snmp",
        port: 161,
        parameters: &[
            parameter(IP, Holds::Address, Absent::Refused),
            parameter(PORT, Holds::Port, Absent::Fine),
            parameter(PLUG, Holds::Plug, Absent::Refused),
            parameter("snmp_version", Holds::OneOf(&["2c", "3"]), Absent::Refused),
            parameter("community", Holds::Secret, Absent::Fine),
            parameter("username", Holds::Text, Absent::Fine),
            parameter("password", Holds::Secret, Absent::Fine),
            parameter("snmp_auth_prot", Holds::OneOf(&["SHA"]), Absent::Is("SHA")),
            parameter(
                "snmp_sec_level",
                Holds::OneOf(&["authNoPriv", "authPriv"]),
                Absent::Is("authPriv"),
            ),
            parameter("snmp_priv_prot", Holds::OneOf(&["AES"]), Absent::Is("AES")),
            parameter("snmp_priv_passwd", Holds::Secret, Absent::Fine),
        ],
        takes_ipv6: false,
        fixed: &[],
    },
];

/// Agents that are never run, by the reason.
const REFUSED: [(&str, &[&str]); 10] = [
    (
        "it reports success without a device; use driver `manual`",
        &["ack_manual", "dummy"],
    ),
    (
        "it turns no machine off; use an agent that does",
        &["heuristics_ping", "kdump", "evacuate", "compute"],
    ),
    (
        "it cuts a machine off from storage or network and leaves it running; use a device that cuts power",
        &[
            "scsi",
            "mpath",
            "sbd",
            "brocade",
            "cisco_mds",
            "crosslink",
            "hds_cb",
            "ifmib",
            "sanbox2",
        ],
    ),
    (
        "it sends the password to any host that answers by SSH, or unencrypted; use driver `redfish`, `ipmi` or `pdu`",
        &[
            "alom",
            "apc",
            "bladecenter",
            "cdu",
            "cyberpower_ssh",
            "docker",
            "drac",
            "drac5",
            "eps",
            "hpblade",
            "ilo3_ssh",
            "ilo4_ssh",
            "ilo5_ssh",
            "ilo_moonshot",
            "ilo_mp",
            "ilo_ssh",
            "ldom",
            "lpar",
            "netio",
            "powerman",
            "raritan",
            "raritan_px3",
            "rcd_serial",
            "rsa",
            "rsb",
            "vbox",
            "virsh",
            "virt",
            "vmware",
            "wti",
            "xvm",
            "zvmip",
        ],
    ),
    (
        "it reports Off for any value that is not On; use driver `pdu`, with model `Generic` for other makers",
        &[
            "apc_snmp",
            "emerson",
            "ibmblade",
            "intelmodular",
            "ipdu",
            "tripplite_snmp",
        ],
    ),
    (
        "it reports Off for states that are not off; use another device of this machine",
        &[
            "amt",
            "azure_arm",
            "cisco_ucs",
            "gce",
            "ibmz",
            "kubevirt",
            "nutanix_ahv",
            "rhevm",
            "skalar",
            "vmware_vcloud",
        ],
    ),
    (
        "it reports Off for machines that hibernate or wait on a dead host; use the driver of that name",
        &["openstack", "pve", "vmware_rest", "vmware_soap", "aws"],
    ),
    (
        "without a system it turns off any, and it checks no status of an answer; use driver `redfish`",
        &["redfish"],
    ),
    (
        "its off toggles the power button; use driver `ipmi`",
        &["ilo", "ilo2"],
    ),
    (
        "its off writes the states of all outlets; use driver `pdu`",
        &["lindypdu"],
    ),
];

/// The agent of this name, or why it is not run.
///
/// # Errors
/// The reason, with a way out.
pub fn find(name: &str) -> Result<&'static Agent, &'static str> {
    if let Some(agent) = AGENTS.iter().find(|agent| agent.name == name) {
        return Ok(agent);
    }
    let short = name.strip_prefix("fence_").unwrap_or(name);
    let refused = REFUSED.iter().find(|(_, names)| names.contains(&short));
    Err(refused.map_or(
        "it is not reviewed; use one that docs/how-to/fence-agents.md lists",
        |(why, _)| why,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What turns nothing off, or says so without having looked, is refused whatever else changes.
    #[test]
    fn what_cannot_be_believed_is_never_run() {
        for name in [
            "fence_dummy",
            "fence_ack_manual",
            "fence_heuristics_ping",
            "fence_kdump",
            "fence_scsi",
            "fence_mpath",
            "fence_sbd",
            "fence_vmware_rest",
            "fence_kubevirt",
            "fence_nutanix_ahv",
            "fence_pve",
            "fence_azure_arm",
            "fence_openstack",
            "fence_apc_snmp",
            "fence_redfish",
            "fence_virsh",
            "fence_amt",
        ] {
            let why = find(name).expect_err(name);
            assert!(!why.contains("not reviewed"), "{name}: {why}");
        }
        assert!(
            find("fence_of_tomorrow")
                .expect_err("unknown")
                .contains("not reviewed")
        );
        assert!(find("ipmilan").is_err() && find("").is_err());
    }

    /// No list has what the other has, and nobody names a parameter that runs, writes or redefines anything.
    #[test]
    fn no_agent_is_both_and_no_parameter_reaches_beyond_the_device() {
        for agent in &AGENTS {
            let short = agent.name.strip_prefix("fence_").expect("its prefix");
            let refused = REFUSED.iter().any(|(_, names)| names.contains(&short));
            assert!(!refused, "{}", agent.name);
            for parameter in agent.parameters {
                let name = parameter.name;
                let reaches = [
                    "_path", "_script", "_options", "file", "sudo", "action", "method", "missing",
                    "delay", "timeout",
                ];
                assert!(!reaches.iter().any(|it| name.contains(it)), "{name}");
            }
        }
    }
}
