//! The rows: each fault that a device, its network or its account can have, and what must come of it, whatever the driver.

use super::verdict::Verdict::{self, *};

/// A fault. Every driver says of every one how it comes about there (`provoke` in its own file): the compiler sees to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    ClosedPort,
    BlackHole,
    NoRoute,
    NoSuchName,
    Loss,
    Duplicates,
    Reordering,
    CorruptPackets,
    WrongSource,
    Replay,
    Slow,
    WrongUser,
    WrongPassword,
    LockedAccount,
    SessionsExhausted,
    OneSession,
    NodeBusy,
    Privilege,
    OffIgnored,
    OffLandsLate,
    Lies,
    StaleReadings,
    Flapping,
    PowerFaultBit,
    ControlFaultBit,
    InterlockBit,
    Restored,
    Status503,
    Status429,
    Status500,
    BadJson,
    Html,
    Empty,
    Truncated,
    Huge,
    Endless,
    Deep,
    Packed,
    DuplicateKeys,
    Redirect,
    LinkElsewhere,
    EndlessNextLink,
    CertificateChanged,
    CertificateExpired,
    Plaintext,
    WrongSystem,
    TwoNodes,
    ZeroUuid,
    AlreadyOff,
    AlreadyOffSaysARunningMachine,
    NoForceOff,
    Reboot,
    ZeroTags,
    Sleeping,
    AllDark,
}

/// Nobody is there, or nobody answers.
const NOBODY: Verdict = FailsAtDeadline(&["Unreachable", "Timeout"]);
/// A human, too, has to be there.
const NOBODY_AT_ALL: Verdict = Fails(&["Unreachable", "Timeout", "HumanNeeded"]);
/// Over UDP what is no answer is dropped and asked for again, so that the driver's deadline ends it.
const GARBAGE: Verdict = Fails(&["ProtocolError", "Timeout"]);
/// IPMI alone tells a user whom it does not know from a wrong password.
const NOT_LET_IN: Verdict = Fails(&["AuthFailed", "UnknownUser"]);
const LATER: Verdict = Fails(&["Busy"]);
const NOT_THE_DEVICE: Verdict = Fails(&["TlsIdentity", "NoSecureLogin"]);
const WRONG_MACHINE: Verdict = NotThisMachine("WrongMachine");

/// All of them: the fault, its words, the verdict.
pub const ROWS: [(Fault, &str, Verdict); 55] = [
    (Fault::ClosedPort, "closed port", FailsAtOnce("Unreachable")),
    (Fault::BlackHole, "black hole", NOBODY),
    (Fault::NoRoute, "no route", FailsAtOnce("Unreachable")),
    (
        Fault::NoSuchName,
        "name that does not exist",
        FailsAtOnce("Unreachable"),
    ),
    (Fault::Loss, "30 % loss", Succeeds),
    (Fault::Duplicates, "duplicates", Succeeds),
    (Fault::Reordering, "reordering", Succeeds),
    (Fault::CorruptPackets, "corrupt packets", Succeeds),
    (Fault::WrongSource, "answers from elsewhere", NOBODY),
    (Fault::Replay, "replay", Succeeds),
    (Fault::Slow, "slow, 0.5 s each way", ReadsWithin6s),
    (Fault::WrongUser, "wrong user", NOT_LET_IN),
    (Fault::WrongPassword, "wrong password", NOT_LET_IN),
    (Fault::LockedAccount, "locked account", NOT_LET_IN),
    (
        Fault::SessionsExhausted,
        "sessions exhausted",
        Fails(&["SessionsExhausted", "Busy"]),
    ),
    (Fault::OneSession, "room for one session", Succeeds),
    (Fault::NodeBusy, "node busy for a while", Succeeds),
    (
        Fault::Privilege,
        "privilege too low",
        Refuses("PermissionDenied"),
    ),
    (Fault::OffIgnored, "off accepted, ignored", ReadsOn),
    (Fault::OffLandsLate, "off accepted, lands later", LandsLate),
    (Fault::Lies, "reads off, machine runs", Contradicted),
    (
        Fault::StaleReadings,
        "remembers off, machine runs again",
        Contradicted,
    ),
    (Fault::Flapping, "flaps between off and on", NeverStable),
    (Fault::PowerFaultBit, "off with a power fault", NeverStable),
    (
        Fault::ControlFaultBit,
        "off with a control fault",
        NeverStable,
    ),
    (Fault::InterlockBit, "off with an interlock", NeverStable),
    (Fault::Restored, "restored after the proof", Restored),
    (Fault::Status503, "503", LATER),
    (Fault::Status429, "429 and Retry-After", LATER),
    (Fault::Status500, "500", LATER),
    (Fault::BadJson, "bad JSON", GARBAGE),
    (Fault::Html, "HTML", GARBAGE),
    (Fault::Empty, "empty answer", GARBAGE),
    (Fault::Truncated, "truncated", GARBAGE),
    (Fault::Huge, "huge answer", GARBAGE),
    (Fault::Endless, "endless answer", GARBAGE),
    (Fault::Deep, "depth 10,000", GARBAGE),
    (Fault::Packed, "packed", GARBAGE),
    (Fault::DuplicateKeys, "state there twice", Unreadable),
    (Fault::Redirect, "redirect", GARBAGE),
    (Fault::LinkElsewhere, "link to elsewhere", GARBAGE),
    (Fault::EndlessNextLink, "endless nextLink", GARBAGE),
    (
        Fault::CertificateChanged,
        "certificate changed",
        NOT_THE_DEVICE,
    ),
    (
        Fault::CertificateExpired,
        "certificate expired",
        NOT_THE_DEVICE,
    ),
    (Fault::Plaintext, "plain text", NOT_THE_DEVICE),
    (Fault::WrongSystem, "wrong system behind it", WRONG_MACHINE),
    (Fault::TwoNodes, "two nodes on one system", Shared),
    (
        Fault::ZeroUuid,
        "all-zero UUID",
        NotThisMachine("IdentityRefused"),
    ),
    (Fault::AlreadyOff, "is off, says already off", Hearsay),
    (
        Fault::AlreadyOffSaysARunningMachine,
        "runs, says already off",
        ReadsOn,
    ),
    (Fault::NoForceOff, "no hard off", Refuses("Refused")),
    (Fault::Reboot, "BMC reboots in between", BeginsAnew),
    (
        Fault::ZeroTags,
        "answers of the login without tag",
        Succeeds,
    ),
    (Fault::Sleeping, "off, and sleeping", NeverStable),
    (Fault::AllDark, "host and BMC dark", NOBODY_AT_ALL),
];
