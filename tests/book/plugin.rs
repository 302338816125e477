//! Lines of `kubectl fence` in the documents: would the plugin take them?

use node_fencing_operator::cli;

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
    let read = cli::command().try_get_matches_from(line);
    read.err().map(|it| it.to_string()).into_iter().collect()
}

/// The plugin's command, if it has none of that name.
pub fn unknown_command(words: &[&str]) -> Option<String> {
    let name = words.get(2).filter(|it| !it.starts_with('-'))?;
    let is_known = cli::command().find_subcommand(name).is_some();
    (!is_known).then(|| format!("there is no `kubectl fence {name}`"))
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
