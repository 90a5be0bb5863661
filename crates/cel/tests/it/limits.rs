//! Whatever is evaluated, it ends, and it takes no more than it may.

use std::sync::Arc;
use std::thread;

use ferroplane_cel::{Environment, EvaluateError, Limits, Numbers, Program, Struct, Type, ValueSchema};
use proptest::prelude::*;
use serde_json::{Value, json};

fn environment() -> Environment {
    Environment::new().variable("self", Type::Dyn)
}

fn compile(source: &str) -> Program {
    environment().compile(source).expect("the expression is fine")
}

fn evaluate(source: &str, value: &Value, cost: u64) -> Result<Value, EvaluateError> {
    let program = compile(source);
    let evaluated = program.evaluate(&[("self", value)], Limits { cost })?;
    Ok(evaluated.value.to_json().expect("it is small"))
}

fn refusal(source: &str) -> String {
    environment().compile(source).expect_err("the expression is wrong").to_string()
}

/// The type of an object has all its fields, and a schema can have thousands of programs about the same ones.
#[test]
fn program_does_not_keep_the_types_of_its_variables() {
    let fields = [("size".to_owned(), Type::Int)].into();
    let kind = Arc::new(Struct { name: "selfType".to_owned(), fields });
    let kept = Arc::downgrade(&kind);
    let program = Environment::new().variable("self", Type::Struct(kind)).compile("self.size > 1").unwrap();
    assert!(kept.upgrade().is_none());
    let object = json!({"size": 2});
    let evaluated = program.evaluate(&[("self", &object)], Limits::PER_CALL).unwrap();
    assert_eq!(evaluated.value.to_json(), Some(json!(true)));
}

#[test]
fn evaluation_stops_when_its_cost_is_spent() {
    let list = json!((0..300).collect::<Vec<_>>());
    let source = "self.all(x, self.all(y, self.all(z, x + y + z >= 0)))";
    let (outcome, cost) =
        compile(source).evaluate_with([("self", compile(source).borrow(&list))], Limits { cost: 10_000 });
    assert_eq!(outcome.unwrap_err().to_string(), "operation cancelled: actual cost limit exceeded");
    assert!((10_000..10_100).contains(&cost), "{cost}");
}

#[test]
fn nothing_absorbs_the_end_of_an_evaluation() {
    let list = json!((0..300).collect::<Vec<_>>());
    for source in ["self.all(x, x >= 0) || true", "true || self.all(x, x >= 0)"] {
        let outcome = evaluate(source, &list, 100);
        assert_eq!(outcome.is_err(), source.starts_with("self"), "{source}: {outcome:?}");
    }
}

#[test]
fn strings_cannot_be_doubled_without_end() {
    let mut source = "a59.size()".to_owned();
    for level in (1..60).rev() {
        source = format!("cel.bind(a{level}, a{0} + a{0}, {source})", level - 1);
    }
    let error =
        evaluate(&format!("cel.bind(a0, '0123456789', {source})"), &Value::Null, u64::MAX).unwrap_err();
    assert_eq!(error, EvaluateError::Cancelled("too much memory"));
}

#[test]
fn lists_within_lists_cannot_be_compared_without_end() {
    let mut source = "a59 == b59".to_owned();
    for level in (1..60).rev() {
        let below = level - 1;
        source = format!(
            "cel.bind(a{level}, [a{below}, a{below}], cel.bind(b{level}, [b{below}, b{below}], {source}))"
        );
    }
    let source = format!("cel.bind(a0, [1], cel.bind(b0, [1], {source}))");
    let error = evaluate(&source, &Value::Null, u64::MAX).unwrap_err();
    assert_eq!(error, EvaluateError::Cancelled("too much work"));
}

/// Binds `a59` to a list that is doubled so often that it cannot be written out.
fn with_doubled_list(source: &str) -> String {
    let doubled = (1..60).rev().fold(source.to_owned(), |source, level| {
        format!("cel.bind(a{level}, [a{0}, a{0}], {source})", level - 1)
    });
    format!("cel.bind(a0, [1], {doubled})")
}

#[test]
fn doubled_lists_cannot_be_added_to_or_compared_with_sets_without_end() {
    let shape = ValueSchema::Set(Box::new(ValueSchema::Plain));
    let set = json!([1]);
    for source in ["(self + [a59, a59]).size() == 2", "self == [a59]"] {
        let program = compile(&with_doubled_list(source));
        let (outcome, _) = program
            .evaluate_with([("self", ferroplane_cel::Value::from_shape(&set, &shape))], Limits::PER_CALL);
        assert_eq!(outcome.unwrap_err(), EvaluateError::Cancelled("too much memory"), "{source}");
    }
}

#[test]
fn doubled_lists_do_not_become_json() {
    let source = with_doubled_list("a59");
    let evaluated = compile(&source).evaluate(&[], Limits::PER_CALL).expect("sharing costs little");
    assert_eq!(evaluated.value.to_json(), None);
}

#[test]
fn replacing_cannot_fill_the_memory() {
    let source =
        "lists.range(1000).map(i, 'xxxxxxxxxx').join().replace('x', lists.range(100000).map(i, 'y').join())";
    let error = evaluate(source, &Value::Null, u64::MAX).unwrap_err();
    assert_eq!(error, EvaluateError::Cancelled("too much memory"));
}

#[test]
fn ranges_cannot_fill_the_memory() {
    let error = evaluate("lists.range(9223372036854775807)", &Value::Null, u64::MAX).unwrap_err();
    assert_eq!(error, EvaluateError::Cancelled("too much memory"));
}

#[test]
fn regular_expressions_cannot_be_made_without_end() {
    let source = "lists.range(100000).all(i, 'a'.matches('(a{500}){2}' + string(i) + '?') || true)";
    let error = evaluate(source, &Value::Null, u64::MAX).unwrap_err();
    assert_eq!(error, EvaluateError::Cancelled("too much work"));
}

#[test]
fn weighed_patterns_cost_more_the_longer_the_text_is() {
    let cost = |environment: Environment, source: &str, value: &Value| {
        let program = environment.compile(source).expect("the expression is fine");
        program.evaluate_with([("self", program.borrow(value))], Limits { cost: u64::MAX }).1
    };
    let long = json!("-".repeat(100_000));
    for source in [r"self.matches('[\\pL]{20}9')", r"self.find('[\\pL]{20}9') == ''"] {
        let (plain, weighed) =
            (cost(environment(), source, &long), cost(environment().weighed_patterns(), source, &long));
        assert!(plain < 100_000 && weighed > 1_000_000, "{source}: {plain} {weighed}");
    }
    let (source, pattern) = ("'a'.matches(self)", json!(r"[\pL]{20}9"));
    let (plain, weighed) =
        (cost(environment(), source, &pattern), cost(environment().weighed_patterns(), source, &pattern));
    assert!(plain < 100 && weighed > 10_000, "{plain} {weighed}");
}

#[test]
fn weighed_searches_that_each_read_the_text_to_its_end_cost_more() {
    let value = json!("A".repeat(30_000));
    let program = environment().weighed_patterns().compile("self.findAll('.*[^A-Z]|[A-Z]').size()").unwrap();
    let (outcome, _) = program.evaluate_with([("self", program.borrow(&value))], Limits { cost: 100_000 });
    assert_eq!(outcome.unwrap_err(), EvaluateError::Cancelled("actual cost limit exceeded"));
}

#[test]
fn deep_expressions_are_refused_and_deepest_ones_fit_into_a_small_stack() {
    let run = || {
        let nested =
            |open: &str, close: &str, count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
        for (open, close) in
            [("(", ")"), ("[", "]"), ("-(", ")"), ("{1: ", "}"), ("[1].map(x, ", ")"), ("dyn(", ")")]
        {
            for count in [20, 60, 120, 200, 240, 251, 5_000, 40_000] {
                if let Ok(program) = environment().compile(&nested(open, close, count)) {
                    let _ = program.evaluate(&[], Limits { cost: 10_000 });
                }
            }
            assert!(environment().compile(&nested(open, close, 5_000)).is_err(), "{open}");
        }
        let chain = format!("1{}", " + 1".repeat(10_000));
        assert!(refusal(&chain).ends_with("max recursion depth exceeded"));
        let chain = format!("true{}", " && true".repeat(10_000));
        assert_eq!(evaluate(&chain, &Value::Null, 10).unwrap(), json!(true));
        let chain = format!("self{}", ".a".repeat(240));
        assert!(evaluate(&chain, &json!({}), 10_000).is_err());
    };
    // Threads of servers and tests have two megabytes.
    thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn macros_cannot_copy_without_end() {
    let chain = format!("self.?a{}", ".optMap(x, x)".repeat(60));
    let text = refusal(&chain);
    assert!(text.contains("limit") || text.contains("depth"), "{text}");
}

#[test]
fn long_sources_are_refused() {
    let text = refusal(&"a".repeat(100_001));
    assert_eq!(
        text,
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000"
    );
}

#[test]
fn appending_in_a_loop_takes_no_longer_than_the_list_is_long() {
    let list = json!((0..100_000).collect::<Vec<_>>());
    assert_eq!(evaluate("self.map(x, x + 1).size()", &list, u64::MAX).unwrap(), json!(100_000));
}

#[test]
fn numbers_can_all_be_doubles() {
    let program =
        environment().numbers(Numbers::Double).compile("self.x / 2.0 == 1.5 && type(self.x) == double");
    let value = json!({"x": 3});
    let evaluated = program.unwrap().evaluate(&[("self", &value)], Limits::default()).unwrap();
    assert_eq!(evaluated.value.as_bool(), Some(true));
}

#[test]
fn mixed_lists_are_refused_unless_allowed() {
    assert!(refusal("[1, 'a']").contains("expected type 'int' but found 'string'"));
    assert!(environment().mixed_literals().compile("[1, 'a']").is_ok());
}

#[test]
fn mistakes_are_marked_below_the_line() {
    let text = refusal("self.x &&\n  unknown > 1");
    assert_eq!(
        text,
        "ERROR: <input>:2:3: undeclared reference to 'unknown' (in container '')\n |   unknown > 1\n | ..^"
    );
}

#[test]
fn programs_can_be_shared_between_threads() {
    fn assert_shareable<T: Send + Sync + 'static>(_: &T) {}
    assert_shareable(&compile("self"));
}

/// Pieces that expressions are made of, so that chance finds more than syntax errors.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("self"),
        Just(".a"),
        Just(".?a"),
        Just("[0]"),
        Just("[?0]"),
        Just("1"),
        Just("2u"),
        Just("1.5"),
        Just("'a'"),
        Just("'%s'"),
        Just("b'a'"),
        Just("null"),
        Just("true"),
        Just(" + "),
        Just(" - "),
        Just(" * "),
        Just(" / "),
        Just(" % "),
        Just(" && "),
        Just(" || "),
        Just(" == "),
        Just(" < "),
        Just(" in "),
        Just("!"),
        Just("-"),
        Just("("),
        Just(")"),
        Just("["),
        Just("]"),
        Just("{"),
        Just("}"),
        Just(": "),
        Just(", "),
        Just(" ? "),
        Just(".map(x, x)"),
        Just(".all(x, x)"),
        Just(".filter(x, "),
        Just("x"),
        Just(".sortBy(x, x)"),
        Just(".size()"),
        Just(".format(["),
        Just("])"),
        Just(".split('')"),
        Just(".join()"),
        Just(".matches('a')"),
        Just("duration('1h')"),
        Just("timestamp('2020-01-01T00:00:00Z')"),
        Just("quantity('1Gi')"),
        Just(".optMap(x, x)"),
        Just("cel.bind(x, "),
        Just(".transformMap(k, v, v)"),
        Just(".flatten()"),
        Just(".replace('a', 'b')"),
        Just("lists.range(9)"),
        Just("string("),
        Just("int("),
        Just("type("),
        Just("has("),
        Just("\\"),
        Just("'"),
        Just("é"),
    ];
    proptest::collection::vec(piece, 1..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_compiled_or_refused(source in ".{0,60}") {
        if let Ok(program) = environment().compile(&source) {
            let _ = program.evaluate(&[("self", &Value::Null)], Limits { cost: 1_000 });
        }
    }

    #[test]
    fn any_soup_is_evaluated_within_its_budget(source in soup(), cost in 0_u64..2_000) {
        let value = json!({"a": [1, {"a": "b"}, [2.5, null]], "b": {"a": true}});
        if let Ok(program) = environment().compile(&source) {
            let (outcome, spent) = program.evaluate_with([("self", program.borrow(&value))], Limits { cost });
            // The step that exceeds the budget is the last.
            prop_assert!(spent <= cost + 1_000, "{source} cost {spent} of {cost}");
            prop_assert!(spent <= cost || outcome.is_err());
        }
    }

    #[test]
    fn patterns_never_panic(pattern in "[\\\\a-d0-9(){}\\[\\]^$*+?|.,:QEdwsbpx-]{0,20}", text in "[a-d0-9 .]{0,20}") {
        let value = json!({"p": pattern, "t": text});
        let _ = evaluate("self.t.matches(self.p) || self.t.find(self.p) == '' || self.t.findAll(self.p).size() > 0", &value, 100_000);
    }

    #[test]
    fn strings_of_all_kinds_are_parsed_or_refused(text in ".{0,30}") {
        let value = json!(text);
        for function in ["url", "isURL", "ip", "isIP", "cidr", "isCIDR", "quantity", "isQuantity", "semver", "isSemver", "duration", "timestamp", "double", "int", "bool", "base64.decode", "format.uri().validate", "format.datetime().validate", "dyn('%s').format", "strings.quote"] {
            let _ = evaluate(&format!("{function}(self)"), &value, 100_000);
        }
        let _ = evaluate("self.format([1, 2.5, 'a'])", &value, 100_000);
    }
}
