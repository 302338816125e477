//! One state of the little world before a report (`early`), what can happen in it, and what goes wrong in which world.

/// Ages are counted up to here: what is older is as old.
pub const OLD: u8 = 10;

/// What the device says of a machine that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// On.
    Honest,
    /// Off, from some moment on.
    Lies,
    /// Off, for a moment: it restarts.
    LiesForAMoment,
    /// Off, and has done so for longer than anybody remembers.
    Stuck,
}

/// What may go wrong.
#[derive(Debug, Clone, Copy)]
pub struct World {
    /// What the device says.
    pub device: Device,
    /// The node may be cut off from all.
    pub cuts: bool,
    /// Its kubelet may stand still; its kernel does not.
    pub hangs: bool,
    /// Its port cannot be reached, and everything else can.
    pub dark: bool,
    /// The watch may be late.
    pub late_watch: bool,
    /// The API server may be away, and ends the watch.
    pub outages: bool,
    /// The API server may stand still, and goes on where it was.
    pub stands_still: bool,
    /// Another kubelet renews its Lease again and again.
    pub steady: bool,
    /// All kubelets renew their Leases at the same moments.
    pub in_step: bool,
    /// Another node goes silent whenever this one does.
    pub rack: bool,
    /// Another node has gone silent just before, and was reported.
    pub rack_before: bool,
    /// How often the machine may lose its power.
    pub losses: u8,
    /// The Node may be restored from a copy, with another uid.
    pub copies: bool,
    /// The operator runs on it.
    pub own: bool,
    /// It runs the control plane.
    pub control_plane: bool,
}

impl World {
    /// A device that is honest, and nothing goes wrong.
    pub fn honest() -> Self {
        Self {
            device: Device::Honest,
            cuts: false,
            hangs: false,
            dark: false,
            late_watch: false,
            outages: false,
            stands_still: false,
            steady: true,
            in_step: false,
            rack: false,
            rack_before: false,
            losses: 0,
            copies: false,
            own: false,
            control_plane: false,
        }
    }

    /// A machine that runs, well seen.
    pub fn first(&self) -> State {
        State {
            on: true,
            boot: 1,
            hangs: false,
            cut: false,
            api: true,
            idle: 0,
            untold: false,
            lies: false,
            lied: 0,
            lies_left: 1,
            uid: 1,
            node_boot: 1,
            ready: true,
            beat: 0,
            seen: 0,
            seen_other: 0,
            suspect: false,
            said: Said::Nothing,
            on_before: match self.device {
                Device::Stuck => On::LongAgo,
                Device::Honest | Device::Lies | Device::LiesForAMoment => On::Lately,
            },
            report: Report::None,
            sent_in: 0,
            landed: 0,
            reports: 1,
            outages: 1,
            losses: self.losses,
        }
    }
}

/// One state. All ages are in steps of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// The machine has power.
    pub on: bool,
    /// How often it has booted.
    pub boot: u8,
    /// Its kubelet stands still.
    pub hangs: bool,
    /// It is cut off.
    pub cut: bool,
    /// The API server answers.
    pub api: bool,
    /// For how long the kubelet could have renewed its Lease, and has not.
    pub idle: u8,
    /// It has renewed it, and the watch has not told yet.
    pub untold: bool,
    /// The device reads Off although the machine is on.
    pub lies: bool,
    /// For how long.
    pub lied: u8,
    /// How often it may begin to.
    pub lies_left: u8,
    /// Of the Node.
    pub uid: u8,
    /// The boot that it shows.
    pub node_boot: u8,
    /// Ready is True.
    pub ready: bool,
    /// Its heartbeat.
    pub beat: u8,
    /// Since the operator has seen a renewal, or begun to watch.
    pub seen: u8,
    /// The same of another kubelet.
    pub seen_other: u8,
    /// The device is asked.
    pub suspect: bool,
    /// What it has said since.
    pub said: Said,
    /// When it has said On before.
    pub on_before: On,
    /// How far the report is.
    pub report: Report,
    /// The boot in which the operator has sent one.
    pub sent_in: u8,
    /// How many have landed, up to one.
    pub landed: u8,
    /// How often the kubelet may report without anything new.
    pub reports: u8,
    /// How often the API server may be away.
    pub outages: u8,
    /// How often the machine may lose its power.
    pub losses: u8,
}

/// What the device has said of a suspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Said {
    /// Nothing.
    Nothing,
    /// On.
    On,
    /// Off.
    Off {
        /// Since it did so first.
        first: u8,
        /// Since it did so last.
        last: u8,
        /// When it had said On before.
        on: On,
        /// In which boot of the Node.
        boot: u8,
    },
}

/// When a device has said On.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum On {
    /// In time for an Off to count.
    Lately,
    /// Before that.
    LongAgo,
}

/// A report on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Report {
    /// There is none.
    None,
    /// It may be sent.
    Judged(Captured),
    /// It was, and arrives when it likes.
    Sent(Captured),
}

/// What the Node was when it was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Captured {
    /// Its uid.
    pub uid: u8,
    /// Its boot.
    pub boot: u8,
    /// Its heartbeat.
    pub beat: u8,
    /// Since the device has said Off last.
    pub last: u8,
}

/// What must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The boot that is reported as off runs.
    False,
    /// Another Node, or another boot, than the one that was judged is reported.
    Another,
    /// The kubelet has reported since its Node was read, and its report is written over.
    Overwrites,
    /// A node of the control plane, or the operator's own, is reported.
    Forbidden,
    /// A boot is reported twice.
    Again,
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// 0.25 s pass.
    Passes,
    /// The machine loses its power.
    PowerLoss,
    /// It boots.
    PowerOn,
    /// The kubelet renews its Lease.
    Renews,
    /// The kubelet reports that it is Ready.
    Reports,
    /// The kubelet stands still, or goes on.
    Hangs(bool),
    /// The device reads Off of the running machine, or what is so again.
    Lies(bool),
    /// The Node is restored from a copy.
    Copied,
    /// The node is cut off, or is not any more.
    Cut(bool),
    /// The watch tells of the renewal.
    Told,
    /// The API server is away, or back.
    Outage(bool),
    /// The operator looks who is silent, and begins or ceases to suspect.
    Looks,
    /// The device is asked, and says On (true) or Off.
    Reads(bool),
    /// The operator judges what it knows.
    Judges,
    /// The report leaves, or is too old to.
    Leaves,
    /// The report arrives.
    Lands,
}
