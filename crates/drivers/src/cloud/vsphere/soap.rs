//! The requests of vSphere's Web Services API (vim25).

use crate::xml::escape;

/// What is read of a VM: all of `runtime`, because a server refuses a property that it does not know yet.
const OF_VM: [&str; 5] = [
    "name",
    "runtime",
    "config.uuid",
    "config.instanceUuid",
    "config.template",
];
/// What is read of the host that runs it.
const OF_HOST: [&str; 2] = ["name", "runtime.connectionState"];

/// The managed objects that everything begins with, and the version of the API that the server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) version: String,
    pub(super) session_manager: String,
    pub(super) search_index: String,
    pub(super) property_collector: String,
    pub(super) view_manager: String,
    pub(super) root_folder: String,
    /// Empty where the server names none.
    pub(super) authorization_manager: String,
    /// Key of the session, which the login has told; empty before it, or where it told none.
    pub(super) session: String,
}

/// An envelope with this in its body.
pub(super) fn envelope(body: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Envelope xmlns=\"http://schemas.xmlsoap.org/soap/envelope/\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><Body>{body}</Body></Envelope>"
    )
}

fn method(name: &str, kind: &str, of: &str, arguments: &str) -> String {
    let of = escape(of);
    envelope(&format!(
        "<{name} xmlns=\"urn:vim25\"><_this type=\"{kind}\">{of}</_this>{arguments}</{name}>"
    ))
}

pub(super) fn content() -> String {
    method(
        "RetrieveServiceContent",
        "ServiceInstance",
        "ServiceInstance",
        "",
    )
}

pub(super) fn login(content: &Content, user: &str, password: &str) -> String {
    let (user, password) = (escape(user), escape(password));
    let arguments = format!("<userName>{user}</userName><password>{password}</password>");
    method(
        "Login",
        "SessionManager",
        &content.session_manager,
        &arguments,
    )
}

/// Every VM with this BIOS UUID.
pub(super) fn find(content: &Content, uuid: &str) -> String {
    let arguments = format!(
        "<uuid>{}</uuid><vmSearch>true</vmSearch><instanceUuid>false</instanceUuid>",
        escape(uuid)
    );
    method(
        "FindAllByUuid",
        "SearchIndex",
        &content.search_index,
        &arguments,
    )
}

/// A VM, and the host that it refers to, in one call: so they are of one moment.
pub(super) fn read(content: &Content, vm: &str) -> String {
    let host = "<selectSet xsi:type=\"TraversalSpec\"><name>host</name><type>VirtualMachine</type><path>runtime.host</path><skip>false</skip></selectSet>";
    let object = format!(
        "<objectSet><obj type=\"VirtualMachine\">{}</obj><skip>false</skip>{host}</objectSet>",
        escape(vm)
    );
    let sets = format!(
        "{}{}",
        properties("VirtualMachine", &OF_VM),
        properties("HostSystem", &OF_HOST)
    );
    retrieve(content, &sets, &object, "")
}

fn retrieve(content: &Content, sets: &str, object: &str, most: &str) -> String {
    let arguments = format!("<specSet>{sets}{object}</specSet><options>{most}</options>");
    let collector = &content.property_collector;
    method(
        "RetrievePropertiesEx",
        "PropertyCollector",
        collector,
        &arguments,
    )
}

fn properties(kind: &str, paths: &[&str]) -> String {
    let paths: String = paths
        .iter()
        .map(|path| format!("<pathSet>{path}</pathSet>"))
        .collect();
    format!("<propSet><type>{kind}</type>{paths}</propSet>")
}

/// A view of all VMs.
pub(super) fn view(content: &Content) -> String {
    let arguments = format!(
        "<container type=\"Folder\">{}</container><type>VirtualMachine</type><recursive>true</recursive>",
        escape(&content.root_folder)
    );
    method(
        "CreateContainerView",
        "ViewManager",
        &content.view_manager,
        &arguments,
    )
}

/// The first page of a view.
pub(super) fn page(content: &Content, view: &str, most: usize) -> String {
    let members = "<selectSet xsi:type=\"TraversalSpec\"><name>view</name><type>ContainerView</type><path>view</path><skip>false</skip></selectSet>";
    let object = format!(
        "<objectSet><obj type=\"ContainerView\">{}</obj><skip>true</skip>{members}</objectSet>",
        escape(view)
    );
    let most = format!("<maxObjects>{most}</maxObjects>");
    retrieve(
        content,
        &properties("VirtualMachine", &OF_VM),
        &object,
        &most,
    )
}

/// The page behind this token.
pub(super) fn next_page(content: &Content, token: &str) -> String {
    let arguments = format!("<token>{}</token>", escape(token));
    let collector = &content.property_collector;
    method(
        "ContinueRetrievePropertiesEx",
        "PropertyCollector",
        collector,
        &arguments,
    )
}

pub(super) fn destroy(view: &str) -> String {
    method("DestroyView", "ContainerView", view, "")
}

/// Switches a VM, by a task.
pub(super) fn switch(vm: &str, on: bool) -> String {
    let name = if on {
        "PowerOnVM_Task"
    } else {
        "PowerOffVM_Task"
    };
    method(name, "VirtualMachine", vm, "")
}

/// Which of these privileges the session has on a VM; none: nobody can be asked.
pub(super) fn privileges(content: &Content, vm: &str, asked: &[&str]) -> Option<String> {
    let (manager, session) = (&content.authorization_manager, &content.session);
    let asked: String = asked
        .iter()
        .map(|it| format!("<privId>{it}</privId>"))
        .collect();
    let arguments = format!(
        "<entity type=\"VirtualMachine\">{}</entity><sessionId>{}</sessionId>{asked}",
        escape(vm),
        escape(session)
    );
    let question = method(
        "HasPrivilegeOnEntities",
        "AuthorizationManager",
        manager,
        &arguments,
    );
    (!manager.is_empty() && !session.is_empty()).then_some(question)
}

/// The state of a task.
pub(super) fn task(content: &Content, task: &str) -> String {
    let object = format!(
        "<objectSet><obj type=\"Task\">{}</obj><skip>false</skip></objectSet>",
        escape(task)
    );
    retrieve(
        content,
        &properties("Task", &["info.state", "info.error"]),
        &object,
        "",
    )
}
