//! FenceDevices out of a table: one row a machine, as inventories export them.
//!
//! A row that breaks a rule makes no device and is named with its line, its column, its value and the rule; then nothing is printed at all, because a
//! fleet of which half was applied looks protected.

use super::super::Error;
use super::super::output::complain;
use super::devices::{Common, Driver, Proposal, Proposals, device, object_name, redfish};
use super::text_of;
use crate::api::device::{FenceDevice, IpmiDriver, IpmiPrivilege, TlsVerification};
use crate::fence::address::Address;
use crate::fence::error::printable;
use crate::fence::redfish as driver;
use crate::fence::tls::Fingerprint;
use csv::{ReaderBuilder, StringRecord, Trim};
use kube::ResourceExt;
use std::collections::BTreeMap;

/// Those that there may be.
const COLUMNS: [&str; 12] = [
    "node",
    "driver",
    "address",
    "credentials",
    "name",
    "system",
    "fingerprint",
    "ca",
    "port",
    "cipherSuite",
    "privilege",
    "group",
];
/// Those that there must be.
const NEEDED: [&str; 4] = ["node", "driver", "address", "credentials"];
/// Those that only one driver has.
const OF_REDFISH: [&str; 3] = ["system", "fingerprint", "ca"];
const OF_IPMI: [&str; 3] = ["port", "cipherSuite", "privilege"];
/// Longest value in a message.
const SHOWN_MAX: usize = 80;

/// What is wrong with a row.
type Problem = String;

/// Reads the table.
///
/// # Errors
/// It cannot be read, or a row breaks a rule.
pub fn devices(file: &str, common: &Common) -> Result<Proposals, Error> {
    let text = text_of(file)?;
    let devices = read(&text, common).map_err(|problems| {
        for problem in &problems {
            complain(&format!("{file}: {problem}"));
        }
        Error::No(format!(
            "{file}: {} problem(s), so nothing is printed; correct them and try again (`kubectl fence generate devices --help` has the columns)",
            problems.len()
        ))
    })?;
    let devices = devices.into_iter().map(|device| Proposal {
        device,
        remarks: Vec::new(),
        is_complete: true,
    });
    Ok(Proposals {
        devices: devices.collect(),
        ..Proposals::default()
    })
}

/// The devices, or all that is wrong.
fn read(text: &str, common: &Common) -> Result<Vec<FenceDevice>, Vec<Problem>> {
    let mut reader = ReaderBuilder::new()
        .trim(Trim::All)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let titles = match reader.headers() {
        Ok(titles) => titles.clone(),
        Err(error) => return Err(vec![unreadable(&error)]),
    };
    let mut problems = unfit(&titles);
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut devices = Vec::new();
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    let mut whole: BTreeMap<String, u64> = BTreeMap::new();
    for record in reader.records() {
        let record = match record {
            Ok(record) if record.iter().all(str::is_empty) => continue,
            Ok(record) => record,
            Err(error) => {
                problems.push(unreadable(&error));
                continue;
            }
        };
        let row = Row::new(&titles, &record);
        match row.device(common) {
            Ok(device) => {
                let name = device.name_any();
                if let Some(line) = lines.insert(name.clone(), row.line) {
                    let rule = format!(
                        "must be another name than that in line {line}: set the column name"
                    );
                    problems.push(row.wrong("name", &name, &rule));
                }
                if let Some(line) = row
                    .whole_address()
                    .and_then(|it| whole.insert(it, row.line))
                {
                    let rule = format!(
                        "must be another address than that in line {line}, or both rows must name their `system`: a device without one counts as every system at its address"
                    );
                    let address = row.values.get("address").copied().unwrap_or_default();
                    problems.push(row.wrong("address", address, &rule));
                }
                devices.push(device);
            }
            Err(found) => problems.extend(found),
        }
    }
    if devices.is_empty() && problems.is_empty() {
        problems.push(
            "there is no row below the names of the columns; write one for each machine".to_owned(),
        );
    }
    match problems.is_empty() {
        true => Ok(devices),
        false => Err(problems),
    }
}

/// What is wrong with the names of the columns.
fn unfit(titles: &StringRecord) -> Vec<Problem> {
    let mut problems = Vec::new();
    for title in titles {
        let shown = printable(title, SHOWN_MAX);
        if !COLUMNS.contains(&title) {
            let all = COLUMNS.join(", ");
            problems.push(format!(
                "line 1: `{shown}` is no column; the columns are {all}"
            ));
        } else if titles.iter().filter(|it| *it == title).count() > 1 {
            problems.push(format!(
                "line 1: column `{shown}` stands there twice; leave one out"
            ));
        }
    }
    let missing = NEEDED
        .iter()
        .filter(|it| !titles.iter().any(|title| title == **it));
    problems
        .extend(missing.map(|it| {
            format!("line 1: column `{it}` is missing; the first row names the columns")
        }));
    problems
}

fn unreadable(error: &csv::Error) -> Problem {
    let line = error.position().map_or(1, csv::Position::line);
    let rule = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!(
            "has {len} values, and must have {expected_len}, one for each column; a value with a comma stands in double quotes"
        ),
        csv::ErrorKind::Utf8 { .. } => "is not UTF-8 text; export it as CSV UTF-8".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    format!("line {line}: the row {rule}")
}

/// One row.
struct Row<'a> {
    line: u64,
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Row<'a> {
    /// Its address, if no other device may have that one: it names no system there.
    fn whole_address(&self) -> Option<String> {
        let value = |column: &str| self.values.get(column).copied();
        let address = value("address").filter(|_| value("system").is_none())?;
        Some(address.trim_end_matches('/').to_ascii_lowercase())
    }

    fn new(titles: &'a StringRecord, record: &'a StringRecord) -> Self {
        let values = titles.iter().zip(record);
        Self {
            line: record.position().map_or(0, csv::Position::line),
            values: values.filter(|(_, value)| !value.is_empty()).collect(),
        }
    }

    fn value(&self, column: &str) -> Option<&'a str> {
        self.values.get(column).copied()
    }

    fn wrong(&self, column: &str, value: &str, rule: &str) -> Problem {
        let value = match value.contains('@') && column == "address" {
            true => "<with an @>".to_owned(),
            false => printable(value, SHOWN_MAX),
        };
        format!("line {}, column {column}: `{value}` {rule}", self.line)
    }

    fn device(&self, common: &Common) -> Result<FenceDevice, Vec<Problem>> {
        let mut problems = Vec::new();
        let missing = NEEDED.iter().filter(|it| self.value(it).is_none());
        problems.extend(missing.map(|it| self.wrong(it, "", "must not be empty")));
        for column in ["node", "credentials", "name", "ca"] {
            if let Some(value) = self.value(column)
                && let Err(rule) = object_name(value)
            {
                problems.push(self.wrong(column, value, &rule));
            }
        }
        if let Some(value) = self.value("group")
            && value.chars().count() > 63
        {
            problems.push(self.wrong("group", value, "must have 63 characters at most"));
        }
        let driver = match self.value("driver") {
            Some("redfish") => self.redfish(common, &mut problems),
            Some("ipmi") => self.ipmi(common, &mut problems),
            Some(other) => {
                problems.push(self.wrong(
                    "driver",
                    other,
                    "must be redfish or ipmi; for other drivers write the FenceDevice by hand",
                ));
                None
            }
            None => None,
        };
        let node = self.value("node").unwrap_or_default();
        let name = self
            .value("name")
            .map_or(format!("{node}-bmc"), str::to_owned);
        if let Some(driver) = driver
            && problems.is_empty()
        {
            let credentials = self.value("credentials").unwrap_or_default();
            let mut device = device(&name, node, driver, credentials, common);
            device.spec.serialization_group = self.value("group").map(str::to_owned);
            return Ok(device);
        }
        Err(problems)
    }

    /// Values of columns that the driver does not have.
    fn foreign(&self, columns: &[&str], driver: &str, problems: &mut Vec<Problem>) {
        for column in columns {
            if let Some(value) = self.value(column) {
                let rule = format!("must be empty: driver {driver} has no such setting");
                problems.push(self.wrong(column, value, &rule));
            }
        }
    }

    fn redfish(&self, common: &Common, problems: &mut Vec<Problem>) -> Option<Driver> {
        self.foreign(&OF_IPMI, "redfish", problems);
        let text = self.value("address")?;
        let address = match Address::parse(text) {
            Ok(address) if !address.plaintext => address,
            Ok(_) => {
                problems.push(self.wrong(
                    "address",
                    text,
                    "must begin with https://: plain http shows the password to the network",
                ));
                return None;
            }
            Err(error) => {
                problems.push(self.wrong(
                    "address",
                    text,
                    &format!("must be https://HOST[:PORT]: {error}"),
                ));
                return None;
            }
        };
        self.judge(&address, common, problems);
        let system = self.value("system");
        if let Err(rule) = driver::target(&address, system) {
            problems.push(self.wrong("system", system.unwrap_or_default(), &rule));
        }
        let ca = self.value("ca").or(common.ca_config_map.as_deref());
        let mut made = redfish(
            format!("https://{}", address.authority()),
            system.map(str::to_owned),
            ca,
        );
        if let Some(value) = self.value("fingerprint") {
            match value.parse::<Fingerprint>() {
                Ok(pin) => {
                    made.tls.verification = TlsVerification::Pinned;
                    made.tls.sha256_fingerprint = Some(pin.to_string());
                    made.tls.ca_ref = None;
                }
                Err(_) => problems.push(self.wrong("fingerprint", value, "must be 64 hexadecimal digits, with or without colons, as `openssl x509 -noout -fingerprint -sha256` prints them")),
            }
        }
        Some(Driver::Redfish(made))
    }

    /// The operator sends credentials to some addresses never.
    fn judge(&self, address: &Address, common: &Common, problems: &mut Vec<Problem>) {
        if let Err(error) = common.judge(address) {
            let value = self.value("address").unwrap_or_default();
            problems.push(self.wrong("address", value, &format!("cannot be used: {error}")));
        }
    }

    fn ipmi(&self, common: &Common, problems: &mut Vec<Problem>) -> Option<Driver> {
        self.foreign(&OF_REDFISH, "ipmi", problems);
        let text = self.value("address")?;
        let port = self.number(
            "port",
            623,
            |it| it > 0,
            "must be a number from 1 to 65535",
            problems,
        );
        let suite = self.number(
            "cipherSuite",
            17,
            |it| matches!(it, 3 | 17),
            "must be 17, or 3 for old BMCs",
            problems,
        );
        let privilege = match self.value("privilege") {
            None | Some("Operator") => IpmiPrivilege::Operator,
            Some("Administrator") => IpmiPrivilege::Administrator,
            Some(other) => {
                problems.push(self.wrong("privilege", other, "must be Operator or Administrator"));
                return None;
            }
        };
        // No node's name is put into it: each row is one machine.
        match Address::expand_host(text, port, "node") {
            Ok(address) if !text.contains('$') => {
                self.judge(&address, common, problems);
                Some(Driver::Ipmi(IpmiDriver {
                    address: address.host,
                    port,
                    cipher_suite: u32::from(suite),
                    privilege,
                }))
            }
            Ok(_) => {
                problems.push(self.wrong(
                    "address",
                    text,
                    "must be one host, without a placeholder",
                ));
                None
            }
            Err(error) => {
                problems.push(self.wrong(
                    "address",
                    text,
                    &format!("must be a host name or an IP address alone: {error}"),
                ));
                None
            }
        }
    }

    fn number(
        &self,
        column: &str,
        default: u16,
        is_allowed: fn(u16) -> bool,
        rule: &str,
        problems: &mut Vec<Problem>,
    ) -> u16 {
        let Some(text) = self.value(column) else {
            return default;
        };
        let read = text.parse().ok().filter(|it| is_allowed(*it));
        read.unwrap_or_else(|| {
            problems.push(self.wrong(column, text, rule));
            default
        })
    }
}

#[cfg(test)]
mod tests;
