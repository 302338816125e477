//! What every benchmark needs: cores that stay awake, what they were given, devices in a process of their own, tables.

pub mod awake;
pub mod emulators;
pub mod table;

/// What the cores have done since the machine started, in ticks of the kernel. They are never idle, see [`awake`].
pub struct Cores {
    busy: f64,
    /// Wanted, and given to others by the hypervisor.
    stolen: f64,
}

impl Cores {
    /// Until now. Source: proc_stat(5).
    pub fn now() -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let all = text.lines().next().unwrap_or_default();
        let ticks: Vec<f64> = all.split_whitespace().flat_map(str::parse).collect();
        let sum = |fields: &[usize]| fields.iter().filter_map(|field| ticks.get(*field)).sum();
        Self {
            busy: sum(&[0, 1, 2, 5, 6]),
            stolen: sum(&[7]),
        }
    }

    /// How much was taken from them since: figures of a machine that is shared are not those of a quiet one.
    pub fn since(&self, before: &Self) -> String {
        let (busy, stolen) = (self.busy - before.busy, self.stolen - before.stolen);
        format!(
            "the hypervisor gave {:.0} % of their time to others",
            100.0 * stolen / (busy + stolen)
        )
    }
}

/// In mebibytes.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
