//! The outlets that feed a machine: how each is switched and read, and what their states together mean.
//!
//! Off is one number per table, of type INTEGER, from every outlet, with no command waiting. An empty answer, another type, a
//! missing outlet or a number that the table does not name is not off. Agents in the field read "anything but 1" as off, and
//! report a machine with two supplies as off when one of them still has power.
//!
//! Names, numbers and meanings are those of APC's PowerNet-MIB 4.6.0 (July 2026; the objects of the older two tables are the same in
//! 3.8.6 of 2006). The example of a generic table, in the API's documentation and in the tests, is `outletSwitchControlTable` of
//! Raritan's PDU2-MIB (revision 2022-09-21), a row of which is a PDU and an outlet: `switchingOperation` takes off (0), on (1), cycle (2),
//! and `outletSwitchingState` is a `SensorStateEnumeration`, in which on is 7 and off is 8.
//!
//! A port of a PoE switch is an outlet as well: RFC 3621 has a table of them, a row of which is a group and a port.

use super::snmp::{Binding, Oid, Value};
use crate::error::printable;
use fencing_api::pdu::{OutletTable, PduDriver, PduModel};
use fencing_core::reading::PowerState;

/// The group of the ports of a switch that is neither stacked nor made of modules (RFC 3621).
const ONLY_GROUP: u32 = 1;
/// Stands for the outlet in an object identifier of the settings.
const PLACEHOLDER: &str = "${outlet}";
/// Longest text of a reading in characters.
const RAW_CHARACTERS_MAX: usize = 63;
/// Longest text of one outlet that is kept in it, in characters.
const WORD_CHARACTERS_MAX: usize = 16;
/// What the tables of APC are told to switch an outlet off now: `immediateOff (2)`, in the oldest one `outletOff (2)`. The numbers of
/// delayed commands and of reboots differ from table to table, and none of them is ever sent. A port of PoE is told false (2).
const OFF_COMMAND: i32 = 2;
/// And to switch it on now: `immediateOn (1)`, in the oldest one `outletOn (1)`; true (1).
const ON_COMMAND: i32 = 1;
/// What their columns of pending commands hold when there is one, and when there is none: `commandPending (1)`, `noCommandPending (2)`; of
/// PoE true (1) and false (2). Two of APC's tables have `commandPendingUnknown (3)`, too, of which the MIB says that everything should be
/// shut down and the PDU power-cycled: that is not off.
const PENDING: i32 = 1;
const NONE_PENDING: i32 = 2;

/// A table of a MIB: three columns, of which an outlet is a row. An outlet of APC that is delayed or rebooting reads off and comes back by itself;
/// its pending command says so.
struct MibTable {
    control: &'static str,
    status: &'static str,
    pending: &'static str,
    /// What a pending command is called beside an off.
    pending_word: &'static str,
    off: i32,
    on: i32,
}

/// `rPDU2OutletSwitchedControlCommand`, `rPDU2OutletSwitchedStatusState` (off 1, on 2), `rPDU2OutletSwitchedStatusCommandPending`.
const RPDU2: MibTable = MibTable {
    control: "1.3.6.1.4.1.318.1.1.26.9.2.4.1.5",
    status: "1.3.6.1.4.1.318.1.1.26.9.2.3.1.5",
    pending: "1.3.6.1.4.1.318.1.1.26.9.2.3.1.6",
    pending_word: "pending",
    off: 1,
    on: 2,
};
/// `rPDUOutletControlOutletCommand`, `rPDUOutletStatusOutletState` (`outletStatusOn` 1, `outletStatusOff` 2),
/// `rPDUOutletStatusCommandPending`.
const RPDU: MibTable = MibTable {
    control: "1.3.6.1.4.1.318.1.1.12.3.3.1.1.4",
    status: "1.3.6.1.4.1.318.1.1.12.3.5.1.1.4",
    pending: "1.3.6.1.4.1.318.1.1.12.3.5.1.1.5",
    pending_word: "pending",
    off: 2,
    on: 1,
};
/// `sPDUOutletCtl`, which is read and written (`outletOn` 1, `outletOff` 2, `outletUnknown` 4), and `sPDUOutletPending`.
const SPDU: MibTable = MibTable {
    control: "1.3.6.1.4.1.318.1.1.4.4.2.1.3",
    status: "1.3.6.1.4.1.318.1.1.4.4.2.1.3",
    pending: "1.3.6.1.4.1.318.1.1.4.4.2.1.2",
    pending_word: "pending",
    off: 2,
    on: 1,
};
/// `pethPsePortTable` of the POWER-ETHERNET-MIB (RFC 3621): `pethPsePortAdminEnable` is written and read (true 1, false 2), and
/// `pethPsePortDetectionStatus` says what is so (disabled 1, searching 2, deliveringPower 3, fault 4, test 5, otherFault 6). A port that is
/// still enabled may power up by itself, as if a command were pending: off is disabled and not enabled, and `searching`, which stands for any
/// state of a port but these, is not off.
const POE: MibTable = MibTable {
    control: "1.3.6.1.2.1.105.1.1.1.3",
    status: "1.3.6.1.2.1.105.1.1.1.6",
    pending: "1.3.6.1.2.1.105.1.1.1.3",
    pending_word: "enabled",
    off: 1,
    on: 3,
};

/// `outletSwitchControlEntry`: a column, a PDU and an outlet follow. The PDU is 1, or 0 (the main controller) where only one is there,
/// and more where others are linked to the one whose agent answers.
const RARITAN: &str = "1.3.6.1.4.1.13742.6.4.1.2.1";

/// An outlet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlet {
    /// Its number in the table.
    pub number: u32,
    control: Oid,
    /// Where it is switched on, which some PDUs have a column of its own for.
    control_on: Oid,
    status: Oid,
    pending: Option<Oid>,
}

/// Every outlet that feeds the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlets {
    list: Vec<Outlet>,
    off_command: i32,
    /// None: the table of the settings does not say.
    on_command: Option<i32>,
    off: i32,
    on: i32,
    pending_word: &'static str,
    /// The group of the ports of a PoE switch.
    group: Option<u32>,
}

impl Outlets {
    /// Reads the settings.
    ///
    /// # Errors
    /// The field, and what is wrong with it.
    pub fn new(driver: &PduDriver) -> Result<Self, (&'static str, String)> {
        if driver.outlets.is_empty() {
            let problem = "it is empty; name every outlet that feeds the machine";
            return Err(("pdu.outlets", problem.to_owned()));
        }
        let group = driver.group.unwrap_or(ONLY_GROUP);
        let table = match (driver.model, &driver.generic) {
            (PduModel::APCRackPDU2, _) => return Self::of(&RPDU2, None, &driver.outlets),
            (PduModel::APCRackPDU, _) => return Self::of(&RPDU, None, &driver.outlets),
            (PduModel::APCMasterSwitch, _) => return Self::of(&SPDU, None, &driver.outlets),
            (PduModel::PoE, _) => return Self::of(&POE, Some(group), &driver.outlets),
            (PduModel::Generic, Some(table)) => table,
            (PduModel::Generic, None) => {
                let problem = "it must be set for model `Generic`";
                return Err(("pdu.generic", problem.to_owned()));
            }
        };
        Self::generic(table, &driver.outlets)
    }

    fn of(
        table: &MibTable,
        group: Option<u32>,
        numbers: &[u32],
    ) -> Result<Self, (&'static str, String)> {
        let row = |number: &u32| match group {
            Some(group) => format!("{group}.{number}"),
            None => number.to_string(),
        };
        let cell = |column: &str, number: &u32| {
            Oid::parse(&format!("{column}.{}", row(number)))
                .map_err(|problem| ("pdu.outlets", problem))
        };
        let outlet = |number: &u32| {
            Ok(Outlet {
                number: *number,
                control: cell(table.control, number)?,
                control_on: cell(table.control, number)?,
                status: cell(table.status, number)?,
                pending: Some(cell(table.pending, number)?),
            })
        };
        Ok(Self {
            list: numbers.iter().map(outlet).collect::<Result<_, _>>()?,
            off_command: OFF_COMMAND,
            on_command: Some(ON_COMMAND),
            off: table.off,
            on: table.on,
            pending_word: table.pending_word,
            group,
        })
    }

    fn generic(table: &OutletTable, numbers: &[u32]) -> Result<Self, (&'static str, String)> {
        if table.status_off_value == table.status_on_value {
            let problem = "`statusOffValue` and `statusOnValue` must differ";
            return Err(("pdu.generic", problem.to_owned()));
        }
        let cell = |field: &'static str, template: &str, number: &u32| {
            if !template.contains(PLACEHOLDER) {
                return Err((
                    field,
                    format!("`{}` must contain {PLACEHOLDER}", printable(template, 256)),
                ));
            }
            Oid::parse(&template.replace(PLACEHOLDER, &number.to_string()))
                .map_err(|problem| (field, problem))
        };
        let outlet = |number: &u32| {
            Ok(Outlet {
                number: *number,
                control: cell("pdu.generic.controlOID", &table.control_oid, number)?,
                control_on: match &table.control_on_oid {
                    Some(column) => cell("pdu.generic.controlOnOID", column, number)?,
                    None => cell("pdu.generic.controlOID", &table.control_oid, number)?,
                },
                status: cell("pdu.generic.statusOID", &table.status_oid, number)?,
                pending: None,
            })
        };
        Ok(Self {
            list: numbers.iter().map(outlet).collect::<Result<_, _>>()?,
            off_command: table.control_off_value,
            on_command: table.control_on_value,
            off: table.status_off_value,
            on: table.status_on_value,
            pending_word: "pending",
            group: None,
        })
    }

    /// The outlets, in the order of the settings.
    pub fn list(&self) -> &[Outlet] {
        &self.list
    }

    /// What tells the outlets of one address apart: their numbers, and the unit where a table is known in which several units of linked
    /// PDUs have an outlet of that number. In any other table nothing tells a unit from a column, or from a second table of the same
    /// outlets: there one number is one outlet, and may be that of each unit. What is switched counts, and what is read (S5).
    pub fn names(&self) -> Vec<String> {
        let raritan = Oid::parse(RARITAN).ok();
        let name = |number: u32, object: &Oid| match raritan
            .as_ref()
            .and_then(|table| object.below(table))
        {
            Some([_, unit, outlet]) => format!("outlet {outlet}/unit {}", (*unit).max(1)),
            _ => match self.group {
                Some(group) => format!("port {number}/group {group}"),
                None => format!("outlet {number}"),
            },
        };
        let objects = |outlet: &Outlet| {
            let objects = [&outlet.control, &outlet.status];
            let mut names = objects.map(|object| name(outlet.number, object)).to_vec();
            names.push(name(outlet.number, &outlet.control_on));
            names
        };
        let mut names: Vec<String> = self.list.iter().flat_map(objects).collect();
        names.dedup();
        names
    }

    /// What is to be read: every outlet's state, then every outlet's pending command, all in one question.
    pub fn question(&self) -> Vec<Binding> {
        let states = self.list.iter().map(|outlet| &outlet.status);
        let pending = self
            .list
            .iter()
            .filter_map(|outlet| outlet.pending.as_ref());
        let ask = |name: &Oid| Binding {
            name: name.clone(),
            value: Value::Null,
        };
        states.chain(pending).map(ask).collect()
    }

    /// What switches an outlet off.
    pub fn off(&self, outlet: &Outlet) -> Vec<Binding> {
        vec![Binding {
            name: outlet.control.clone(),
            value: Value::Integer(self.off_command),
        }]
    }

    /// What switches an outlet on; none: nobody has said how.
    pub fn on(&self, outlet: &Outlet) -> Option<Vec<Binding>> {
        Some(vec![Binding {
            name: outlet.control_on.clone(),
            value: Value::Integer(self.on_command?),
        }])
    }

    /// Numbers of the outlets that the agent does not have.
    pub fn missing(&self, answer: &[Binding]) -> Vec<u32> {
        let is_missing = |outlet: &&Outlet| {
            matches!(
                value(answer, &outlet.status),
                Some(Value::NoSuchObject | Value::NoSuchInstance)
            )
        };
        let missing = self.list.iter().filter(is_missing);
        missing.map(|outlet| outlet.number).collect()
    }

    /// What the states mean together, and the words for the record: those that are not off first.
    pub fn judge(&self, answer: &[Binding]) -> (PowerState, String) {
        let mut each: Vec<(u32, PowerState, String)> = self
            .list
            .iter()
            .map(|outlet| {
                let (state, word) = self.judge_one(outlet, answer);
                (outlet.number, state, word)
            })
            .collect();
        let has = |wanted: PowerState| each.iter().any(|(_, state, _)| *state == wanted);
        let state = if has(PowerState::On) {
            PowerState::On
        } else if has(PowerState::Unknown) || each.is_empty() {
            PowerState::Unknown
        } else if has(PowerState::Transitional) {
            PowerState::Transitional
        } else {
            PowerState::Off
        };
        each.sort_by_key(|(_, state, _)| *state == PowerState::Off);
        let words: Vec<String> = each
            .iter()
            .map(|(number, _, word)| format!("{number}: {word}"))
            .collect();
        (state, printable(&words.join(", "), RAW_CHARACTERS_MAX))
    }

    /// Names of the outlets that read off while another does not.
    pub fn off_parts(&self, answer: &[Binding]) -> Vec<String> {
        let is_off = |outlet: &&Outlet| self.judge_one(outlet, answer).0 == PowerState::Off;
        let off: Vec<&Outlet> = self.list.iter().filter(is_off).collect();
        if off.len() == self.list.len() {
            return Vec::new();
        }
        let name = |outlet: &Outlet| format!("outlet {}", outlet.number);
        off.into_iter().map(name).collect()
    }

    fn judge_one(&self, outlet: &Outlet, answer: &[Binding]) -> (PowerState, String) {
        let state = value(answer, &outlet.status);
        let pending = outlet
            .pending
            .as_ref()
            .map(|pending| value(answer, pending));
        match (state, pending) {
            (Some(Value::Integer(on)), _) if *on == self.on => (PowerState::On, "on".to_owned()),
            (Some(Value::Integer(off)), pending) if *off == self.off => match pending {
                None | Some(Some(Value::Integer(NONE_PENDING))) => {
                    (PowerState::Off, "off".to_owned())
                }
                Some(Some(Value::Integer(PENDING))) => (
                    PowerState::Transitional,
                    format!("off, {}", self.pending_word),
                ),
                Some(other) => (
                    PowerState::Unknown,
                    format!("off, {} {}", self.pending_word, shown(other)),
                ),
            },
            (other, _) => (PowerState::Unknown, shown(other)),
        }
    }
}

/// The value of an object, if the answer has it exactly once.
fn value<'a>(answer: &'a [Binding], name: &Oid) -> Option<&'a Value> {
    let mut found = answer.iter().filter(|binding| binding.name == *name);
    match (found.next(), found.next()) {
        (Some(binding), None) => Some(&binding.value),
        _ => None,
    }
}

/// A value, for the record.
fn shown(value: Option<&Value>) -> String {
    match value {
        None => "no answer".to_owned(),
        Some(Value::Null) => "null".to_owned(),
        Some(Value::Integer(number)) => number.to_string(),
        Some(Value::Octets(octets)) => {
            let text = String::from_utf8_lossy(octets);
            format!("\"{}\"", printable(&text, WORD_CHARACTERS_MAX))
        }
        Some(Value::Oid(oid)) => printable(&oid.to_string(), WORD_CHARACTERS_MAX),
        Some(Value::NoSuchObject) => "noSuchObject".to_owned(),
        Some(Value::NoSuchInstance) => "noSuchInstance".to_owned(),
        Some(Value::Other(tag)) => format!("type {tag:#04x}"),
    }
}

#[cfg(test)]
mod tests;
