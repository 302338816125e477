//! Other BMCs before the machines than the lab's own Redfish ones. Each is put there before the operator starts: afterwards
//! it would be another device's identity that was pinned.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::json;

use super::objects::{ipmi, redfish};
use super::{Lab, Rig};
use fencing_testbed::fence_agent::{self, DebianAgents};
use fencing_testbed::ipmi::{IpmiBmc, Settings, Suite};
use fencing_testbed::ipmi_peers::{Brand, IpmiPeer};
use fencing_testbed::power::Power;
use fencing_testbed::sushy::{Libvirt, Sushy};

impl Lab {
    /// Puts sushy-tools' emulator before the machine of this number, and points its FenceDevice there.
    pub async fn sushy(&self, number: usize) -> Result<Sushy> {
        self.emulator(number, None).await
    }

    /// The same with its libvirt driver: the machine is a domain, which its hypervisor saves when it loses its power.
    pub async fn saved_domain(&self, number: usize, libvirt: &Libvirt) -> Result<Sushy> {
        self.emulator(number, Some(libvirt)).await
    }

    async fn emulator(&self, number: usize, libvirt: Option<&Libvirt>) -> Result<Sushy> {
        let rig = self.rig(number);
        let sushy = self.bare_emulator(number, libvirt).await?;
        self.device(rig, redfish(&sushy.url())).await?;
        self.devices.has_no_log(rig.machine.name());
        Ok(sushy)
    }

    /// The emulator before the machine of this number, whose FenceDevice does not know it.
    pub(super) async fn bare_emulator(
        &self,
        number: usize,
        libvirt: Option<&Libvirt>,
    ) -> Result<Sushy> {
        let rig = self.rig(number);
        let IpAddr::V4(address) = rig.bmc.address().ip() else {
            anyhow::bail!("the lab's BMCs have addresses of 127.0.0.0/8");
        };
        // The lab's own BMCs count up from 1 in the last byte.
        let [a, b, c, d] = address.octets();
        let address = Ipv4Addr::new(a, b, c, d + 100).into();
        Sushy::start(
            address,
            power(rig),
            rig.bmc.credentials().clone(),
            &self.ca,
            self.control_plane.guard(),
            self.control_plane.files().directory(),
            libvirt,
        )
        .await
    }

    /// Puts the lab's own IPMI BMC, with this suite alone, before the machine of this number, and points its FenceDevice
    /// there. It shares the address of the Redfish BMC, as they do in life.
    pub async fn ipmi(&self, number: usize, suite: Suite) -> Result<IpmiBmc> {
        let rig = self.rig(number);
        let settings = Settings::with_suite(suite);
        let bmc = IpmiBmc::start(rig.bmc.address().ip(), power(rig), settings)?;
        self.device(rig, ipmi(bmc.address(), suite)).await?;
        self.devices.log(rig.machine.name(), bmc.recorder());
        Ok(bmc)
    }

    /// Puts an IPMI BMC that none of us wrote before the machine of this number, and points its FenceDevice there, with
    /// suite 3: the only one that they know.
    pub async fn ipmi_peer(&self, number: usize, brand: Brand) -> Result<IpmiPeer> {
        let rig = self.rig(number);
        let peer = IpmiPeer::start(
            brand,
            rig.bmc.address().ip(),
            power(rig),
            rig.bmc.credentials().clone(),
            self.control_plane.guard(),
            self.control_plane.files().directory(),
        )
        .await?;
        self.device(rig, ipmi(peer.address(), Suite::Three)).await?;
        self.devices.has_no_log(rig.machine.name());
        Ok(peer)
    }

    /// Puts OpenIPMI's BMC before each machine, and ClusterLabs' agent between it and the operator, which has to be started with it:
    /// [`Lab::operator`] does. None of us wrote either of them.
    pub async fn fence_agent(&self) -> Result<Vec<IpmiPeer>> {
        let agents = tokio::task::spawn_blocking(DebianAgents::unpack).await??;
        let mut peers = Vec::new();
        for number in 1..=self.rigs.len() {
            let peer = self.ipmi_peer(number, Brand::IpmiSim).await?;
            let address = peer.address();
            let parameters = json!([
                {"name": "ip", "value": address.ip()}, {"name": "ipport", "value": address.port().to_string()},
                {"name": "username", "secretKey": "username"}, {"name": "password", "secretKey": "password"},
                // The one suite that this BMC knows.
                {"name": "cipher", "value": "3"},
            ]);
            let agent = json!({"agent": fence_agent::NAME, "parameters": parameters});
            let device = json!({"identityCheck": "Skip", "fenceAgent": agent});
            self.device(self.rig(number), device).await?;
            peers.push(peer);
        }
        let is_first = self.agents.set(agents).is_ok();
        ensure!(is_first, "the lab has its agents");
        Ok(peers)
    }
}

pub(super) fn power(rig: &Rig) -> Arc<dyn Power> {
    rig.machine.clone()
}
