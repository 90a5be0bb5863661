//! Whatever a template does, it ends within its budget, and leaves nothing behind.

use std::time::Duration;

use ferroplane_golang::fmt::Numbers;
use ferroplane_template::{
    Budget, CallSite, ExecuteError, Exhausted, Functions, Heap, Host, NoHost, Options, Templates, Value,
    sprig,
};
use serde_json::json;

use crate::functions::FUNCTIONS;

fn executed(text: &str, budget: Budget) -> Result<usize, ExecuteError> {
    executed_by(text, budget, &mut NoHost)
}

fn executed_by(text: &str, budget: Budget, host: &mut dyn Host) -> Result<usize, ExecuteError> {
    let functions = Functions::builtin().with(FUNCTIONS);
    let templates = Templates::parse("t", text, &Options::default(), &functions).unwrap();
    let heap = Heap::new();
    let data = Value::from_json(&heap, &json!({"a": {}, "text": "abc"}), Numbers::AsWritten);
    templates.execute(data, &heap, host, budget).map(|output| output.len())
}

fn limit(text: &str) -> Exhausted {
    let budget = Budget { steps: 100_000, memory: 1 << 20, output: 1 << 16, depth: 50 };
    let error = executed(text, budget).expect_err(text);
    error.exhausted.unwrap_or_else(|| panic!("{text}: {error}"))
}

#[test]
fn template_that_loops_is_stopped() {
    assert_eq!(limit("{{ range 9223372036854775807 }}{{ end }}"), Exhausted::Steps(100_000));
    assert_eq!(
        limit("{{ range 1000 }}{{ range 1000 }}{{ if true }}{{ end }}{{ end }}{{ end }}"),
        Exhausted::Steps(100_000)
    );
    let mut doubling = r#"{{ define "s" }}{{ end }}{{ template "a" }}"#.to_owned();
    for name in b'a'..b's' {
        let (name, next) = (char::from(name), char::from(name + 1));
        let call = format!(r#"{{{{ template "{next}" }}}}"#);
        doubling += &format!(r#"{{{{ define "{name}" }}}}{call}{call}{{{{ end }}}}"#);
    }
    assert_eq!(limit(&doubling), Exhausted::Steps(100_000));
}

#[test]
fn executions_that_share_a_budget_end_within_it() {
    let text = "{{ range 100 }}x{{ end }}";
    let templates = Templates::parse("t", text, &Options::default(), &Functions::builtin()).unwrap();
    let (heap, mut budget) = (Heap::new(), Budget { steps: 1000, ..Budget::default() });
    let mut execute = || templates.execute_within(Value::Nil, &heap, &mut NoHost, &mut budget);
    let count = (0..100).take_while(|_| execute().is_ok()).count();
    assert!((1..=10).contains(&count), "{count}");
    assert_eq!(budget.steps, 0);
}

#[test]
fn template_that_makes_much_is_stopped() {
    assert_eq!(
        limit(r#"{{ $x := "x" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}"#),
        Exhausted::Memory(1 << 20)
    );
    assert_eq!(limit(r#"{{ $x := printf "%1000000d%1000000d" 1 2 }}"#), Exhausted::Memory(1 << 20));
    assert_eq!(limit("{{ range 100000 }}{{ $x := dictOf `a` . }}{{ end }}"), Exhausted::Memory(1 << 20));
}

#[test]
fn work_that_is_hidden_in_values_takes_steps() {
    let lists = "{{ $x := lists }}{{ range 30 }}{{ $x = lists $x $x }}{{ end }}{{ $y := print $x }}";
    let texts = "{{ $x := printf `%200000d` 1 }}{{ $y := printf `%200000d` 1 }}{{ range 1000 }}{{ if eq $x $y }}{{ end }}{{ end }}";
    let maps = "{{ range 1000 }}{{ $_ := put $.a (print .) 1 }}{{ end }}{{ range 1000 }}{{ range $.a }}{{ break }}{{ end }}{{ end }}";
    let budget = Budget { steps: 100_000, ..Budget::default() };
    for text in [lists, texts, maps] {
        let error = executed(text, budget).expect_err(text);
        assert_eq!(error.exhausted, Some(Exhausted::Steps(100_000)), "{text}: {error}");
    }
}

#[test]
fn template_that_writes_much_is_stopped() {
    assert_eq!(limit("{{ range 10000 }}0123456789{{ end }}"), Exhausted::Output(1 << 16));
    assert_eq!(
        limit(r#"{{ $x := printf "%1000d" 1 }}{{ range 100 }}{{ $x }}{{ end }}"#),
        Exhausted::Output(1 << 16)
    );
}

#[test]
fn limit_is_reported_with_its_place() {
    let error = executed("a\n{{ range 5000000000 }}{{ end }}", Budget::default()).unwrap_err();
    assert_eq!((error.line, error.name.as_str()), (2, "t"));
    assert_eq!(
        error.to_string(),
        r#"template: t:2:9: executing "t" at <5000000000>: the template takes more than 10000000 steps"#
    );
}

#[test]
fn host_can_stop_a_template() {
    struct Impatient(u32);
    impl Host for Impatient {
        fn expired(&mut self) -> Option<Duration> {
            self.0 += 1;
            (self.0 > 3).then_some(Duration::from_secs(3))
        }
    }
    let mut host = Impatient(0);
    let error = executed_by("{{ range 5000000000 }}{{ end }}", Budget::default(), &mut host).unwrap_err();
    assert_eq!((error.exhausted, host.0), (Some(Exhausted::Time(Duration::from_secs(3))), 4));
    assert!(error.to_string().ends_with("the template takes longer than 3s"), "{error}");
}

#[test]
fn draws_take_steps_for_the_names_of_all_templates_around_them() {
    /// Counts the bytes of the names that it is given.
    #[derive(Default)]
    struct Counting(usize);
    impl Host for Counting {
        fn begin_draw(&mut self, sites: &[CallSite<'_>]) {
            self.0 += sites.iter().map(|site| site.name.len()).sum::<usize>();
        }
        fn random(&mut self, _: &mut [u8]) -> bool {
            true
        }
    }
    let name = "n".repeat(20_000);
    let draws = "{{ range 9000 }}{{ $_ := randInt 0 9 }}{{ end }}";
    let text = format!(
        r#"{{{{ define "{name}" }}}}{{{{ if . }}}}{{{{ template "{name}" (sub . 1) }}}}{{{{ else }}}}{draws}{{{{ end }}}}{{{{ end }}}}{{{{ template "{name}" 200 }}}}"#
    );
    let templates = Templates::parse("t", &text, &Options::default(), &sprig::functions()).unwrap();
    let (heap, mut host) = (Heap::new(), Counting::default());
    let budget = Budget { steps: 500_000, ..Budget::default() };

    let error = templates.execute(Value::Nil, &heap, &mut host, budget).unwrap_err();

    assert_eq!(error.exhausted, Some(Exhausted::Steps(500_000)), "{error}");
    assert!((1..500_000 * 64).contains(&host.0), "{} bytes of names were hashed", host.0);
}

#[test]
fn templates_that_call_themselves_are_stopped() {
    let budget = Budget::default();
    for text in [
        r#"{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}"#,
        r#"{{ define "a" }}{{ if true }}{{ with 1 }}{{ range 1 }}{{ template "a" (print (print 1)) }}{{ end }}{{ end }}{{ end }}{{ end }}{{ template "a" . }}"#,
        r#"{{ define "a" }}{{ include "a" . }}{{ end }}{{ template "a" . }}"#,
        r#"{{ define "a" }}{{ print (print (print (include "a" .))) }}{{ end }}{{ template "a" . }}"#,
    ] {
        let error = executed(text, budget).expect_err(text).to_string();
        assert!(error.contains("exceeded maximum template depth (500)"), "{error}");
    }
}

/// The deepest template that can be written, on the stack that a test has.
#[test]
fn deepest_nesting_does_not_overflow_the_stack() {
    let parens = format!("{}1{}", "(print ".repeat(99), ")".repeat(99));
    let body =
        format!("{}{{{{ template \"a\" {parens} }}}}{}", "{{ if true }}".repeat(90), "{{ end }}".repeat(90));
    let text = format!("{{{{ define \"a\" }}}}{body}{{{{ end }}}}{{{{ template \"a\" . }}}}");
    let error = executed(&text, Budget::default()).unwrap_err().to_string();
    assert!(error.contains("exceeded maximum template depth"), "{error}");
    let included = text.replace("template \"a\" (", "include \"a\" (");
    let error = executed(&included, Budget::default()).unwrap_err().to_string();
    assert!(error.contains("exceeded maximum template depth"), "{error}");
    let inside = format!(
        r#"{{{{ define "a" }}}}{{{{ {}(include "a" 1){} }}}}{{{{ end }}}}{{{{ template "a" . }}}}"#,
        "(print ".repeat(98),
        ")".repeat(98)
    );
    let error = executed(&inside, Budget::default()).unwrap_err().to_string();
    assert!(error.contains("exceeded maximum template depth"), "{error}");
}

#[test]
fn nesting_of_a_text_is_limited() {
    let parse = |text: &str| {
        Templates::parse("t", text, &Options::default(), &Functions::builtin()).expect_err(text).message
    };
    assert_eq!(parse(&format!("{{{{ {} }}}}", "(".repeat(100_000))), "max expression depth exceeded");
    assert_eq!(parse(&"{{ if . }}".repeat(100_000)), "blocks are nested too deeply");
    assert_eq!(
        parse(&("{{ if . }}".to_owned() + &"{{ else if . }}".repeat(100_000))),
        "blocks are nested too deeply"
    );
    assert_eq!(parse(&"{{ $x := 1 }}".repeat(2000)), "more than 1000 variables");
    assert_eq!(parse(&"{{ block `a` . }}".repeat(100_000)), "blocks are nested too deeply");
}

#[test]
fn value_that_contains_itself_is_not_printed_and_is_freed() {
    let error = executed("{{ $_ := put .a `self` .a }}{{ .a }}", Budget::default()).unwrap_err();
    assert!(error.to_string().ends_with("the value is nested deeper than 200"), "{error}");
    // Chains of maps and lists of any length are freed without recursion.
    let chain = "{{ $m := .a }}{{ range 100000 }}{{ $n := dictOf `a` 1 }}{{ $_ := put $m `n` (lists $n) }}{{ $m = $n }}{{ end }}";
    assert_eq!(executed(chain, Budget::default()), Ok(0));
    let error =
        executed("{{ $x := lists 1 }}{{ range 1000 }}{{ $x = lists $x }}{{ end }}", Budget::default())
            .unwrap_err();
    assert!(error.to_string().ends_with("error calling lists: lists are nested deeper than 500"), "{error}");
}

#[test]
fn map_that_contains_itself_leaves_nothing_behind() {
    let heap = Heap::new();
    let map = heap.map(&ferroplane_template::Type::Any, [].into());
    map.insert("self".into(), Value::Map(std::rc::Rc::clone(&map))).unwrap();
    let weak = std::rc::Rc::downgrade(&map);
    drop((map, heap));
    assert_eq!(weak.strong_count(), 0);
}
