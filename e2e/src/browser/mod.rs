//! A real Chromium without a window, out of Debian's package: it opens our pages as people's browsers do, and tells what it shows.
//!
//! It is asked by its DevTools protocol (chromedevtools.github.io/devtools-protocol) over a pair of pipes (`--remote-debugging-pipe`), so that no port
//! is open. It reaches nothing but 127.0.0.1, and what it asks for is counted.

mod pipes;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use serde_json::{Value, json};

use self::pipes::Pipes;
use fencing_testbed::debian::Packages;
use fencing_testbed::process::{Guard, Process, Spec};

/// The program below the packages' root: the one in `usr/bin` is a script that calls it by where Debian would have installed it.
const PROGRAM: &str = "usr/lib/chromium/chromium-headless-shell";
/// Opens the pipes where Chromium looks for them.
const SCRIPT: &str = r#"exec "$0" "$@" 3<"$PIPE_IN" 4>"$PIPE_OUT""#;
/// How often a page is opened whose place another one takes.
const OPENED_MAX: u32 = 10;
/// For a whole answer, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A running Chromium with one tab. It ends when dropped, and with the guard.
pub struct Browser {
    process: Process,
    pipes: Pipes,
    session: String,
    number: u64,
    requests: Vec<String>,
    told: Vec<Value>,
}

/// A key on the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Tab.
    Tab,
    /// Enter.
    Enter,
    /// Right arrow.
    Right,
    /// End.
    End,
}

impl Key {
    /// Its name, its code of Windows, and the text that it makes.
    fn parts(self) -> (&'static str, u32, &'static str) {
        match self {
            Self::Tab => ("Tab", 9, ""),
            Self::Enter => ("Enter", 13, "\r"),
            Self::Right => ("ArrowRight", 39, ""),
            Self::End => ("End", 35, ""),
        }
    }
}

impl Browser {
    /// Fetches the packages if that has not been done, and starts it. Its files go into this directory.
    pub async fn start(guard: &Arc<Guard>, directory: &Path) -> Result<Self> {
        let packages = ["chromium-headless-shell", "fonts-dejavu-core"];
        let unpack = move || Packages::unpack("chromium", &packages);
        let packages = tokio::task::spawn_blocking(unpack).await??;
        let directory = directory.join("browser");
        std::fs::create_dir_all(&directory)?;
        let fonts = directory.join("fonts.conf");
        std::fs::write(&fonts, fonts_of(packages.directory(), &directory))?;
        let pipes = Pipes::make(&directory)?;
        let flags = [
            "--remote-debugging-pipe",
            // It runs in a container as root, and opens nothing but our own pages.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--no-first-run",
            "--hide-scrollbars",
            "--font-render-hinting=none",
            "--force-color-profile=srgb",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ];
        let profile = format!("--user-data-dir={}", directory.join("profile").display());
        let spec = Spec::new("chromium", "sh", &directory.join("log"))
            .args(["-c", SCRIPT])
            .args([packages.directory().join(PROGRAM)])
            .args(flags)
            .args([profile])
            .env("PIPE_IN", pipes.input())
            .env("PIPE_OUT", pipes.output())
            .env("FONTCONFIG_FILE", fonts)
            .env("HOME", &directory);
        let mut spec = spec;
        for (key, value) in packages.environment() {
            spec = match key {
                // A library of these is found by its absolute path only, otherwise.
                "LD_LIBRARY_PATH" => spec.env(key, with_private(&value)),
                _ => spec.env(key, value),
            };
        }
        let process = spec.spawn(guard)?;
        let mut this = Self {
            process,
            pipes,
            session: String::new(),
            number: 0,
            requests: Vec::new(),
            told: Vec::new(),
        };
        let made = this.ask("Target.createTarget", json!({"url": "about:blank"}));
        let made = made.await?;
        let attach = json!({"targetId": made["targetId"], "flatten": true});
        let attached = this.ask("Target.attachToTarget", attach).await?;
        let session = attached["sessionId"].as_str();
        this.session = session.context("a tab has a session")?.to_owned();
        for domain in ["Page", "Network", "Runtime"] {
            this.ask(&format!("{domain}.enable"), json!({})).await?;
        }
        let told = json!({"enabled": true});
        this.ask("Page.setLifecycleEventsEnabled", told).await?;
        Ok(this)
    }

    /// Opens a page, and waits until this very one has loaded: the one before may just load itself anew, and take its place.
    pub async fn open(&mut self, url: &str) -> Result<()> {
        for _ in 0..OPENED_MAX {
            self.told.clear();
            let opened = self.ask("Page.navigate", json!({"url": url})).await?;
            // The second: other tests' network interfaces come and go.
            if ["net::ERR_ABORTED", "net::ERR_NETWORK_CHANGED"]
                .iter()
                .any(|it| opened["errorText"] == *it)
            {
                continue;
            }
            ensure!(opened["errorText"].is_null(), "{url}: {opened}");
            if self.loaded(url).await? == opened["loaderId"] {
                // One that loads itself anew may have been on its way since before, and taken its place again.
                let tree = self.ask("Page.getFrameTree", json!({})).await?;
                if tree["frameTree"]["frame"]["loaderId"] == opened["loaderId"] {
                    return Ok(());
                }
            }
        }
        bail!("{url}: another page loads again and again")
    }

    /// Which page has loaded, as soon as one has.
    async fn loaded(&mut self, awaited: &str) -> Result<Value> {
        loop {
            let mut told = self.told.iter();
            let has_loaded = |told: &&Value| {
                told["method"] == "Page.lifecycleEvent" && told["params"]["name"] == "load"
            };
            if let Some(told) = told.find(has_loaded) {
                return Ok(told["params"]["loaderId"].clone());
            }
            let message = self.next(awaited).await?;
            self.note(message);
        }
    }

    /// What an expression of JavaScript is in the page; of a promise, what it keeps.
    pub async fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.ask("Runtime.evaluate", asked).await?;
        ensure!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        Ok(answer["result"]["value"].take())
    }

    /// The same as text.
    pub async fn text(&mut self, expression: &str) -> Result<String> {
        let value = self.evaluate(expression).await?;
        let text = value.as_str().map(str::to_owned);
        text.with_context(|| format!("{expression} is {value}"))
    }

    /// Makes the window so large, in CSS pixels, and what people prefer: `light` or `dark`.
    pub async fn look(&mut self, width: u32, height: u32, scheme: &str) -> Result<()> {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size).await?;
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let media = json!({"media": "screen", "features": features});
        self.ask("Emulation.setEmulatedMedia", media).await?;
        Ok(())
    }

    /// Shows the page as it is printed, in the window.
    pub async fn look_as_printed(&mut self) -> Result<()> {
        let media = json!({"media": "print"});
        self.ask("Emulation.setEmulatedMedia", media).await?;
        Ok(())
    }

    /// Lets scripts of pages run or not, as people set it; from the next page on.
    pub async fn scripts(&mut self, run: bool) -> Result<()> {
        let asked = json!({"value": !run});
        self.ask("Emulation.setScriptExecutionDisabled", asked)
            .await?;
        Ok(())
    }

    /// The window as a PNG.
    pub async fn screenshot(&mut self) -> Result<Vec<u8>> {
        let asked = json!({"format": "png", "optimizeForSpeed": false});
        let shot = self.ask("Page.captureScreenshot", asked).await?;
        let data = shot["data"].as_str().context("a picture has data")?;
        Ok(base64::engine::general_purpose::STANDARD.decode(data)?)
    }

    /// Of a PNG: how many colours it has, and how bright it is (0 black, 255 white). Leaves the page for an empty one.
    pub async fn colours(&mut self, png: &[u8]) -> Result<(u64, u64)> {
        self.open("about:blank").await?;
        let data = base64::engine::general_purpose::STANDARD.encode(png);
        let script = include_str!("colours.js").replace("DATA", &data);
        let found = self.evaluate(&script).await?;
        let number = |index: usize| found[index].as_u64().context("a number");
        Ok((number(0)?, number(1)?))
    }

    /// Presses a key, and lets it go.
    pub async fn press(&mut self, key: Key) -> Result<()> {
        let (name, code, text) = key.parts();
        for kind in ["keyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": name, "code": name, "windowsVirtualKeyCode": code, "text": text,
            });
            self.ask("Input.dispatchKeyEvent", event).await?;
        }
        Ok(())
    }

    /// The page for assistive technology: a node for each element that has a role.
    pub async fn accessibility(&mut self) -> Result<Vec<Value>> {
        let mut tree = self.ask("Accessibility.getFullAXTree", json!({})).await?;
        let nodes = tree["nodes"].take();
        Ok(serde_json::from_value(nodes)?)
    }

    /// What it has asked for, from its start.
    pub fn requests(&self) -> &[String] {
        &self.requests
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.pipes.send(&message).await?;
        loop {
            let mut message = self.next(method).await?;
            if message["id"] == self.number {
                ensure!(message["error"].is_null(), "{method}: {message}");
                return Ok(message["result"].take());
            }
            self.note(message);
        }
    }

    async fn next(&mut self, awaited: &str) -> Result<Value> {
        let message = tokio::time::timeout(LIMIT, self.pipes.next()).await;
        self.process.check()?;
        message.with_context(|| format!("Chromium does not answer: {awaited}"))?
    }

    /// Takes note of what it tells unasked.
    fn note(&mut self, message: Value) {
        if message["method"] == "Network.requestWillBeSent" {
            let url = message["params"]["request"]["url"].as_str();
            self.requests.extend(url.map(str::to_owned));
        }
        self.told.push(message);
    }
}

fn with_private(libraries: &str) -> String {
    let own = libraries.split(':').next().unwrap_or_default();
    format!("{libraries}:{own}/pulseaudio")
}

/// The packages' fonts and no others: a page looks the same on every machine.
fn fonts_of(root: &Path, directory: &Path) -> String {
    format!(
        "<?xml version=\"1.0\"?><!DOCTYPE fontconfig SYSTEM \"fonts.dtd\"><fontconfig>\
         <dir>{}/usr/share/fonts</dir><cachedir>{}/fonts</cachedir></fontconfig>",
        root.display(),
        directory.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencing_testbed::debian;

    #[tokio::test]
    async fn a_page_is_opened_asked_photographed_and_typed_into() -> Result<()> {
        if !debian::available_to_test("a_page_is_opened_asked_photographed_and_typed_into")? {
            return Ok(());
        }
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("page.html");
        let page = "<h1>Here</h1><a href=a>a</a><a href=b>b</a><img src=http://example.invalid/x>";
        std::fs::write(&file, page)?;
        let guard = Guard::start()?;
        let mut browser = Browser::start(&guard, directory.path()).await?;
        browser.look(400, 300, "dark").await?;
        browser.open(&format!("file://{}", file.display())).await?;
        let heading = browser.text("document.querySelector('h1').textContent");
        ensure!(heading.await? == "Here");
        for _ in 0..2 {
            browser.press(Key::Tab).await?;
        }
        ensure!(browser.text("document.activeElement.textContent").await? == "b");
        let asked = browser.requests().iter();
        ensure!(asked.filter(|it| it.contains("example.invalid")).count() == 1);
        let png = browser.screenshot().await?;
        let (colours, brightness) = browser.colours(&png).await?;
        ensure!(colours > 10 && brightness > 200, "{colours} {brightness}");
        Ok(())
    }

    /// A page that loads itself anew, as ours do without scripts, at the very moment when another is opened.
    #[tokio::test]
    async fn a_page_that_is_opened_is_not_taken_for_one_that_reloads() -> Result<()> {
        if !debian::available_to_test("a_page_that_is_opened_is_not_taken_for_one_that_reloads")? {
            return Ok(());
        }
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("page.html");
        let page = "<noscript><meta http-equiv=refresh content=1></noscript><p id=it>still</p>\
                    <script>document.getElementById('it').textContent = 'runs'</script>";
        std::fs::write(&file, page)?;
        let guard = Guard::start()?;
        let mut browser = Browser::start(&guard, directory.path()).await?;
        let address = format!("file://{}", file.display());
        for early in (0..60).step_by(6) {
            browser.scripts(false).await?;
            browser.open(&address).await?;
            tokio::time::sleep(Duration::from_millis(1010 - early)).await;
            browser.scripts(true).await?;
            browser.open(&address).await?;
            let text = browser.text("document.getElementById('it').textContent");
            ensure!(text.await? == "runs", "{early} ms early");
        }
        Ok(())
    }
}
