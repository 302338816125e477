//! Lines of `kubectl fence` in the documents: would the plugin take them?

/// Would the plugin take this command line?
pub fn plugin(words: &[&str]) -> Vec<String> {
    let words: Vec<&str> = words
        .iter()
        .copied()
        .take_while(|it| !it.starts_with(['#', '>']))
        .collect();
    // What stands in double quotes is one word.
    let command = words.join(" ");
    let pieces = command.split('"').enumerate();
    let line = pieces.flat_map(|(at, piece)| match at % 2 {
        0 => piece.split_whitespace().collect(),
        _ => vec![piece],
    });
    let line = line.skip(1);
    let read = fencing_plugin::command().try_get_matches_from(line);
    read.err().map(|it| it.to_string()).into_iter().collect()
}

/// The plugin's command, if it has none of that name.
pub fn unknown_command(words: &[&str]) -> Option<String> {
    let name = words.get(2).filter(|it| !it.starts_with('-'))?;
    let is_known = fencing_plugin::command().find_subcommand(name).is_some();
    (!is_known).then(|| format!("there is no `kubectl fence {name}`"))
}

/// Flux takes away what a field manager wrote whose name begins with `kubectl`, and kubectl's own does: a pause is written as the plugin writes it.
pub fn pause_lost_to_flux(words: &[&str]) -> Option<String> {
    const WRITES: [&str; 4] = ["patch", "edit", "apply", "replace"];
    const MANAGER: &str = "--field-manager=nodefencing-cli";
    let writes = words.iter().any(|it| WRITES.contains(it));
    let pauses = words.iter().any(|it| it.contains("pauseRequests"));
    let is_lost = writes && pauses && !words.contains(&MANAGER);
    is_lost.then(|| format!("Flux takes this pause away: {MANAGER}"))
}

#[test]
fn a_pause_that_flux_would_take_away_is_found() {
    let found = |line: &str| pause_lost_to_flux(&line.split(' ').collect::<Vec<_>>());
    let patch = r#"kubectl patch nfp workers --type merge -p '{"spec":{"pauseRequests":[]}}'"#;
    assert!(found(patch).is_some());
    assert!(found(&format!("{patch} --field-manager=kubectl-fence")).is_some());
    assert_eq!(
        found(&format!("{patch} --field-manager=nodefencing-cli")),
        None
    );
    assert_eq!(
        found("kubectl get nfp -o jsonpath={.spec.pauseRequests}"),
        None
    );
}

#[test]
fn a_line_that_the_plugin_would_not_take_is_found() {
    let found = |line: &str| plugin(&line.split(' ').collect::<Vec<_>>());
    let line = "kubectl fence approve NODE --reason \"seen dark\"  # said by two";
    assert!(found(line).is_empty(), "{:?}", found(line));
    assert!(!found("kubectl fence approve NODE").is_empty());
    assert!(!found("kubectl fence diagnose NODE --lint").is_empty());
    assert!(unknown_command(&["kubectl", "fence", "aprove"]).is_some());
}
