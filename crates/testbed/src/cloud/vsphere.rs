//! A vCenter with one VM on one host, as its Web Services API (vim25) answers.

use http::header::{COOKIE, SET_COOKIE};

use super::{Beside, Page, Taken, View, Wants};
use crate::{bmc::Answer, https::Call};

/// User and password.
pub const LOGIN: [&str; 2] = ["fence@vsphere.local", "s3cret-&-more"];

const SESSION: &str = "52a1b2c3-lab-session";

/// The vCenter.
#[derive(Debug, Clone, Copy, Default)]
pub struct Vsphere;

impl Page for Vsphere {
    const STATE: [&'static str; 2] = [
        "<powerState>poweredOn</powerState>",
        "<powerState>poweredOff</powerState>",
    ];

    fn wants(&self, call: &Call) -> Option<Wants> {
        let body = std::str::from_utf8(&call.body).ok()?;
        let method = body.split("<Body><").nth(1)?.split([' ', '>']).next()?;
        match method {
            "RetrieveServiceContent" | "Login" => Some(Wants::Login),
            "PowerOffVM_Task" => Some(Wants::Switch(false)),
            "PowerOnVM_Task" => Some(Wants::Switch(true)),
            "RetrievePropertiesEx" if body.contains("runtime.host") => Some(Wants::State),
            "RetrievePropertiesEx" | "FindAllByUuid" | "HasPrivilegeOnEntities" => {
                Some(Wants::Other)
            }
            _ => None,
        }
    }

    fn lets_in(&self, wants: Wants, call: &Call) -> bool {
        if wants != Wants::Login {
            let cookie = call.head.headers.get(COOKIE);
            return cookie
                .is_some_and(|it| it == format!("vmware_soap_session=\"{SESSION}\"").as_str());
        }
        let body = String::from_utf8_lossy(&call.body);
        let [user, password] = LOGIN.map(|it| it.replace('&', "&amp;"));
        !body.contains("<Login ")
            || (body.contains(&format!("<userName>{user}</userName>"))
                && body.contains(&format!("<password>{password}</password>")))
    }

    fn answer(&self, wants: Wants, view: &View<'_>) -> Answer {
        match (wants, view.taken) {
            (Wants::Login, _) if view.body.contains("<Login ") => {
                let cookie = format!("vmware_soap_session=\"{SESSION}\"; Path=/; HttpOnly; Secure");
                let session = "<returnval><key>52a1</key></returnval>";
                returns("Login", session).with(SET_COOKIE, cookie)
            }
            (Wants::Login, _) => returns("RetrieveServiceContent", CONTENT),
            (Wants::State, _) => returns("RetrievePropertiesEx", &state(view)),
            (Wants::Switch(_), Taken::Done) => returns(
                "PowerVM_Task",
                "<returnval type=\"Task\">task-7</returnval>",
            ),
            (Wants::Switch(_), Taken::Already) => fault(
                "InvalidPowerState",
                "The attempted operation cannot be performed in the current state.",
            ),
            (Wants::Switch(_), _) => fault(
                "InvalidState",
                "The operation is not allowed in the current state.",
            ),
            (Wants::Other, _) if view.body.contains("FindAllByUuid") => returns(
                "FindAllByUuid",
                "<returnval type=\"VirtualMachine\">vm-62</returnval>",
            ),
            (Wants::Other, _) if view.body.contains("HasPrivilegeOnEntities") => {
                returns("HasPrivilegeOnEntities", &privileges(view.may_switch))
            }
            (Wants::Other, _) => returns("RetrievePropertiesEx", TASK),
        }
    }

    fn error(&self, status: u16, words: &str) -> Answer {
        match status {
            401 => fault(
                "InvalidLogin",
                "Cannot complete login due to an incorrect user name or password.",
            ),
            403 => fault(
                "NoPermission",
                "Permission to perform this operation was denied.",
            ),
            _ => Answer::text(status, words),
        }
    }
}

const CONTENT: &str = "<returnval><rootFolder type=\"Folder\">group-d1</rootFolder><propertyCollector type=\"PropertyCollector\">propertyCollector</propertyCollector>\
    <viewManager type=\"ViewManager\">ViewManager</viewManager><about><apiVersion>8.0.2.0</apiVersion></about>\
    <sessionManager type=\"SessionManager\">SessionManager</sessionManager><searchIndex type=\"SearchIndex\">SearchIndex</searchIndex>\
    <authorizationManager type=\"AuthorizationManager\">AuthorizationManager</authorizationManager></returnval>";

const TASK: &str = "<returnval><objects><obj type=\"Task\">task-7</obj><propSet><name>info.state</name><val>success</val></propSet></objects></returnval>";

fn envelope(body: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><soapenv:Body>{body}</soapenv:Body></soapenv:Envelope>"
    )
}

fn returns(method: &str, value: &str) -> Answer {
    let response = format!("<{method}Response xmlns=\"urn:vim25\">{value}</{method}Response>");
    Answer::text(200, envelope(&response))
}

fn fault(name: &str, words: &str) -> Answer {
    let fault = format!(
        "<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>{words}</faultstring>\
         <detail><{name}Fault xmlns=\"urn:vim25\" xsi:type=\"{name}\"/></detail></soapenv:Fault>"
    );
    Answer::text(500, envelope(&fault))
}

fn privileges(may_switch: bool) -> String {
    let of = |name: &str, granted: bool| {
        format!(
            "<privAvailability><privId>{name}</privId><isGranted>{granted}</isGranted></privAvailability>"
        )
    };
    format!(
        "<returnval><entity type=\"VirtualMachine\">vm-62</entity>{}{}</returnval>",
        of("System.Read", true),
        of("VirtualMachine.Interact.PowerOff", may_switch)
    )
}

fn state(view: &View<'_>) -> String {
    let state = match (view.is_on, view.beside) {
        (true, _) => Vsphere::STATE[0],
        (false, Beside::Memory) => "<powerState>suspended</powerState>",
        (false, _) => Vsphere::STATE[1],
    };
    let failover = view.beside == Beside::AtWork;
    let host = match view.beside {
        Beside::OldReport => "notResponding",
        _ => "connected",
    };
    let vm = match view.beside {
        Beside::CutOff => "disconnected",
        _ => "connected",
    };
    let property = |name: &str, value: &str| {
        format!("<propSet><name>{name}</name><val>{value}</val></propSet>")
    };
    let runtime = format!(
        "<host type=\"HostSystem\">host-21</host><connectionState>{vm}</connectionState>{state}<vmFailoverInProgress>{failover}</vmFailoverInProgress>"
    );
    let properties = [
        property("name", view.name),
        property("runtime", &runtime),
        property("config.uuid", view.uuid),
        property(
            "config.instanceUuid",
            "500c0ffe-1111-2222-3333-444455556666",
        ),
        property("config.template", "false"),
    ];
    let host = [
        property("name", "esx1.lab"),
        property("runtime.connectionState", host),
    ];
    format!(
        "<returnval><objects><obj type=\"VirtualMachine\">vm-62</obj>{}</objects>\
         <objects><obj type=\"HostSystem\">host-21</obj>{}</objects></returnval>",
        properties.concat(),
        host.concat()
    )
}
