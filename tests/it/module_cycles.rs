//! Proves that the modules of a crate do not depend on each other in a cycle. Cargo proves that for crates.

use crate::{
    architecture::{code, sources},
    prelude::*,
};
use std::iter;

#[test]
fn modules_of_a_crate_form_no_cycles() {
    for (source, files) in sources() {
        let read = |file: &PathBuf| {
            let path = file.strip_prefix(&source).unwrap().with_extension("");
            let names = path.iter().map(|name| name.to_str().unwrap());
            let names = iter::once("crate").chain(names.filter(|name| !["lib", "mod"].contains(name)));
            let text = fs::read_to_string(file).unwrap();
            let lines: Vec<_> = code(&text).map(|(_, line)| line).collect();
            (names.collect::<Vec<_>>().join("::"), lines.join("\n"))
        };
        assert_eq!(in_cycles(&files.iter().map(read).collect()), "", "{}", source.display());
    }
}

#[test]
fn a_planted_cycle_is_found() {
    let modules = [
        ("crate", "pub use b::Y;"),
        ("crate::a", "use crate::{\n    Y,\n};"),
        ("crate::b", "super::a::g()"),
        ("crate::c", "use crate::a;"),
    ];
    let modules = modules.map(|(module, code)| (module.to_owned(), code.to_owned()));
    assert_eq!(in_cycles(&modules.into()), "a, b");
}

/// The code of each module by the module's path; or each path that a module imports, by the path under which it is
/// known in that module.
type Modules = BTreeMap<String, String>;

/// Returns the names of the modules that are in a cycle, or on a path between two cycles. For modules outside of a
/// folder, the files of the folder count as one module. The folder's `mod.rs` may use the other files of the folder,
/// and be used by them.
fn in_cycles(modules: &Modules) -> String {
    let (mut imported, mut uses) = (Modules::new(), BTreeMap::<String, BTreeSet<String>>::new());
    for (module, code) in modules {
        for path in imports(code) {
            imported.insert(format!("{module}::{}", path.rsplit(':').next().unwrap_or_default()), path);
        }
    }
    for (module, code) in modules {
        for home in paths(code).iter().map(|path| home(module, path, modules, &imported)) {
            if let Some(at) = module.split("::").zip(home.split("::")).position(|(from, to)| from != to) {
                let [from, to] = [module, &home].map(|of| of.split("::").take(at + 1).collect::<Vec<_>>());
                uses.entry(from.join("::")).or_default().insert(to.join("::"));
            }
        }
    }
    while let Some(free) = uses.iter().find_map(|(module, used)| {
        let is_used = uses.values().any(|used| used.contains(module));
        (!is_used || !used.iter().any(|used| uses.contains_key(used))).then(|| module.clone())
    }) {
        uses.remove(&free);
    }
    uses.into_keys().collect::<Vec<_>>().join(", ").replace("crate::", "")
}

/// Returns the module that defines what `module` calls `path`, even if `module` gets it through another module's
/// re-export. Returns `module` itself for what another crate defines.
fn home(module: &str, path: &str, modules: &Modules, imported: &Modules) -> String {
    let mut module = module.to_owned();
    for name in path.split("::") {
        let next = format!("{module}::{name}");
        module = match imported.get(&next) {
            _ if name == "crate" => name.to_owned(),
            _ if name == "super" => module.rsplit_once("::").map_or("crate", |(parent, _)| parent).to_owned(),
            _ if modules.contains_key(&next) => next,
            Some(path) => home(&module, path, modules, &Modules::new()),
            None => break,
        };
    }
    module
}

/// Returns the words and paths in `code`, including the paths that it imports in braces.
fn paths(code: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let words = code.split(|c| !is_word(c) && c != ':').filter(|word| !word.ends_with(':'));
    words.map(str::to_owned).chain(imports(code)).collect()
}

/// Returns the paths that `code` imports.
fn imports(code: &str) -> Vec<String> {
    let mut imports = Vec::new();
    let begins = |at: &usize| {
        let before = code[..*at].rsplit('\n').next().unwrap_or_default().trim_start();
        before.is_empty() || before.starts_with("pub")
    };
    for (at, _) in code.match_indices("use ").filter(|(at, _)| begins(at)) {
        let tree = code[at + 4..].split(';').next().unwrap_or_default().replace(" as ", "@");
        let (mut groups, mut path) = (Vec::new(), String::new());
        for c in tree.chars().filter(|c| !c.is_whitespace()).chain([',']) {
            match c {
                '{' => groups.push(path.clone()),
                ',' | '}' => {
                    if groups.last() != Some(&path) && !path.is_empty() {
                        let path = path.split('@').next().unwrap_or_default();
                        imports.push(path.trim_end_matches("::self").to_owned());
                    }
                    if c == '}' {
                        groups.pop();
                    }
                    path = groups.last().cloned().unwrap_or_default();
                }
                c => path.push(c),
            }
        }
    }
    imports
}
