//! `littoral doctor`: what this host offers and what to do about what is missing.
//!
//! - Missing things are no failure: each has a stand-in. `--require` makes them one, with code 1.

use littoral::base::error::Class;
use littoral::machine::host::{Fact, Host};
use serde_json::{Value, json};

use crate::args::DoctorArgs;
use crate::failure::{Failure, Outcome};
use crate::out;

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs) -> Outcome {
    let facts = Host::default().facts();
    let missing = missing(&facts, &args.require)?;
    out::show(args.shown.format, &report(&facts, &missing))?;
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!("this host lacks {}; the advice above says what to do", missing.join(", "));
    Err(Failure::new(Class::Negative, text))
}

/// Which of the wanted things the host lacks.
fn missing(facts: &[Fact], wanted: &[String]) -> Result<Vec<String>, Failure> {
    let judged: Vec<&str> = facts.iter().filter(|f| f.available.is_some()).map(|f| f.id).collect();
    let mut missing = Vec::new();
    for id in wanted {
        let Some(fact) = facts.iter().find(|f| f.id == id) else {
            let text = format!("--require {id}: unknown; one of {}", judged.join(", "));
            return Err(Failure::new(Class::Usage, text));
        };
        if fact.available != Some(true) {
            missing.push(id.clone());
        }
    }
    Ok(missing)
}

fn report(facts: &[Fact], missing: &[String]) -> Value {
    let rows = facts
        .iter()
        .map(|f| json!({"id": f.id, "what": f.name, "available": f.available, "found": f.words}));
    let advised = facts.iter().filter_map(|f| Some((f, f.advice.as_ref()?)));
    let advice: Vec<Value> =
        advised.map(|(f, advice)| json!({"id": f.id, "to_do": advice})).collect();
    let judged = facts.iter().filter(|f| f.available.is_some()).count();
    let has = facts.iter().filter(|f| f.available == Some(true)).count();
    let sentence = format!(
        "This host has {has} of {judged} things that littoral can use; each of the others has a \
         stand-in, so nothing that is missing stops a run."
    );
    json!({
        "schema": "littoral.doctor/1",
        "host": rows.collect::<Vec<_>>(),
        "advice": advice,
        "required_and_missing": missing,
        "sentence": sentence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Vec<Fact> {
        let fact = |id, available, advice: Option<&str>| Fact {
            id,
            name: id,
            available,
            words: "found".into(),
            advice: advice.map(str::to_owned),
        };
        vec![
            fact("a", Some(true), None),
            fact("b", Some(false), Some("mend b")),
            fact("c", None, None),
        ]
    }

    #[test]
    fn what_is_required_and_missing_is_named() {
        let wanted = |ids: &[&str]| ids.iter().map(|i| (*i).to_owned()).collect::<Vec<_>>();
        assert_eq!(missing(&facts(), &wanted(&["a"])).unwrap(), Vec::<String>::new());
        assert_eq!(missing(&facts(), &wanted(&["a", "b", "c"])).unwrap(), ["b", "c"]);
        assert!(missing(&facts(), &wanted(&["x"])).is_err());
    }

    #[test]
    fn every_advice_is_shown() {
        let value = report(&facts(), &["b".into()]);
        assert_eq!(value["advice"], json!([{"id": "b", "to_do": "mend b"}]));
        assert_eq!(value["required_and_missing"], json!(["b"]));
        assert!(value["sentence"].as_str().unwrap().contains("1 of 2"));
    }
}
