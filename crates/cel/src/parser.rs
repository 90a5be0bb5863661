//! Reads an expression. Never recurses deeper, nor builds more, than its limits say.
//!
//! Follows cel-go 0.29.2, `parser/parser.go`.

use super::ast::{Element, Expression, ExpressionId, ExpressionKind, MapEntry};
use super::lexer::{Placed, Token, tokens, unquote};
use super::macros;
use super::source::{Mistake, Position};
use super::value::Value;

/// How many characters a source may have: cel-go's default.
const LONGEST: usize = 100_000;
/// How deeply expressions may be nested, what macros add included: cel-go's default, which also fits a small stack.
const DEEPEST: u32 = 250;
/// How many expressions there may be. Macros can copy what they are given, so the source alone sets no limit.
const LARGEST: usize = 200_000;

/// Words that cannot be names.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const START_OF_EXPRESSION: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// How operators are written, what they are called, and how strongly they bind.
const OPERATORS: [(&str, &str, usize); 14] = [
    ("||", "_||_", 0),
    ("&&", "_&&_", 1),
    ("<", "_<_", 2),
    ("<=", "_<=_", 2),
    (">=", "_>=_", 2),
    (">", "_>_", 2),
    ("==", "_==_", 2),
    ("!=", "_!=_", 2),
    ("in", "@in", 2),
    ("+", "_+_", 3),
    ("-", "_-_", 3),
    ("*", "_*_", 4),
    ("/", "_/_", 4),
    ("%", "_%_", 4),
];

/// Where parsing ends: the mistake is already noted.
#[derive(Debug)]
pub(super) struct Stop;

/// The expression, or everything that is wrong with it.
pub(super) fn parse(source: &str) -> Result<Expression, Vec<Mistake>> {
    let size = source.chars().count();
    if size > LONGEST {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {LONGEST}");
        return Err(vec![Mistake::general(message)]);
    }
    // The tokens are read at once, mistakes included: cel-go reports bad tokens even where the grammar fails
    // before them.
    let (tokens, mistakes) = tokens(source);
    let mut parser = Parser { tokens, next: 0, nesting: 0, size: 0, next_id: 0, mistakes };
    let parsed = parser.whole();
    match parsed {
        Ok(expression) if parser.mistakes.is_empty() => Ok(expression),
        _ => Err(parser.mistakes),
    }
}

#[derive(Debug)]
pub(super) struct Parser<'s> {
    tokens: Vec<Placed<'s>>,
    next: usize,
    nesting: u32,
    size: usize,
    next_id: u32,
    mistakes: Vec<Mistake>,
}

type Parsed<T = Expression> = Result<T, Stop>;

impl<'s> Parser<'s> {
    /// Notes an expression, unless there are too many or they are nested too deeply.
    pub(super) fn node(&mut self, position: Position, kind: ExpressionKind) -> Parsed {
        let depth = 1 + kind.children().iter().map(|child| child.depth).max().unwrap_or(0);
        self.size += 1;
        self.bounded(depth)?;
        let id = ExpressionId(self.next_id);
        self.next_id += 1;
        Ok(Expression { id, position, depth, kind })
    }

    pub(super) fn copy(&mut self, expression: &Expression) -> Parsed {
        self.size += expression.size();
        self.bounded(expression.depth)?;
        let mut copy = expression.clone();
        copy.renumber(&mut self.next_id);
        Ok(copy)
    }

    pub(super) fn call(&mut self, position: Position, function: &str, arguments: Vec<Expression>) -> Parsed {
        self.node(position, ExpressionKind::Call { function: function.to_owned(), target: None, arguments })
    }

    /// Notes a mistake that does not keep the rest from being read.
    pub(super) fn wrong(&mut self, position: Position, message: impl Into<String>) -> Parsed {
        self.mistakes.push(Mistake::new(position, message));
        self.node(position, ExpressionKind::Literal(Value::Null))
    }

    fn bounded(&mut self, depth: u32) -> Parsed<()> {
        if depth > DEEPEST {
            self.mistakes.push(Mistake::general("max recursion depth exceeded"));
            return Err(Stop);
        }
        if self.size > LARGEST {
            self.mistakes.push(Mistake::general("expression size exceeds limit"));
            return Err(Stop);
        }
        Ok(())
    }

    fn whole(&mut self) -> Parsed {
        let expression = self.expression()?;
        let left = self.peek();
        if left.token != Token::End {
            // ANTLR calls a token extraneous if the source would be fine without it.
            let form =
                if left.text.starts_with([')', ']', '}', ':', ',']) || self.next + 2 == self.tokens.len() {
                    "extraneous"
                } else {
                    "mismatched"
                };
            return self.syntax_error(&format!("{form} input '{}' expecting <EOF>", left.text));
        }
        Ok(expression)
    }

    fn expression(&mut self) -> Parsed {
        self.nesting += 1;
        if self.nesting > DEEPEST {
            let message = format!("expression recursion limit exceeded: {DEEPEST}");
            self.mistakes.push(Mistake::general(message));
            return Err(Stop);
        }
        let condition = self.binary(0)?;
        let expression = match self.accept("?") {
            None => condition,
            Some(position) => {
                // Not `expression`: a condition within the first branch needs parentheses, by the grammar.
                let yes = self.binary(0)?;
                self.expect(":")?;
                let no = self.expression()?;
                self.call(position, "_?_:_", vec![condition, yes, no])?
            }
        };
        self.nesting -= 1;
        Ok(expression)
    }

    /// A tree as flat as possible, so that long chains are not deep.
    fn balance(&mut self, function: &str, mut terms: Vec<Expression>, positions: &[Position]) -> Parsed {
        if terms.len() == 1 {
            return terms.pop().ok_or(Stop);
        }
        let middle = positions.len() / 2;
        let right = terms.split_off(middle + 1);
        let left = self.balance(function, terms, &positions[..middle])?;
        let right = self.balance(function, right, &positions[middle + 1..])?;
        self.call(positions[middle], function, vec![left, right])
    }

    /// Operators between two operands, beginning with those that bind least.
    fn binary(&mut self, weakest: usize) -> Parsed {
        let mut left = self.unary()?;
        while let Some((symbol, function, strength)) = self.operator(weakest) {
            // `&&` and `||` are collected into one chain and balanced, so that a thousand terms do not nest a
            // thousand deep.
            if strength < 2 {
                left = self.chain(left, symbol, function, strength)?;
                continue;
            }
            let position = self.advance().position;
            let right = self.binary(strength + 1)?;
            left = self.call(position, function, vec![left, right])?;
        }
        Ok(left)
    }

    /// The operator that comes next, if it binds at least this much.
    fn operator(&self, weakest: usize) -> Option<(&'static str, &'static str, usize)> {
        let Token::Symbol(symbol) = self.peek().token else { return None };
        OPERATORS.into_iter().find(|(text, _, strength)| *text == symbol && *strength >= weakest)
    }

    /// All terms that are joined by the same logical operator.
    fn chain(&mut self, first: Expression, symbol: &str, function: &str, strength: usize) -> Parsed {
        let (mut terms, mut positions) = (vec![first], Vec::new());
        while let Some(position) = self.accept(symbol) {
            positions.push(position);
            terms.push(self.binary(strength + 1)?);
        }
        self.balance(function, terms, &positions)
    }

    fn unary(&mut self) -> Parsed {
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            if !self.is(symbol) || self.is_negative_number() {
                continue;
            }
            let position = self.peek().position;
            let mut count = 0;
            while self.accept(symbol).is_some() {
                count += 1;
            }
            let member = self.member()?;
            // `!!x` is `x`: an even number of signs leaves no trace, not even a check of the type.
            return if count % 2 == 0 { Ok(member) } else { self.call(position, function, vec![member]) };
        }
        self.member()
    }

    /// A minus directly before a number belongs to it.
    fn is_negative_number(&self) -> bool {
        let after = self.tokens.get(self.next + 1).map(|placed| placed.token);
        self.is("-") && matches!(after, Some(Token::Int(_) | Token::Double(_)))
    }

    fn member(&mut self) -> Parsed {
        let mut operand = self.primary()?;
        loop {
            operand = if let Some(position) = self.accept(".") {
                self.dotted(position, operand)?
            } else if let Some(position) = self.accept("[") {
                let function = if self.accept("?").is_some() { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.expect("]")?;
                self.call(position, function, vec![operand, index])?
            } else {
                return Ok(operand);
            };
        }
    }

    /// What follows a dot: a field, an optional field, or a call.
    fn dotted(&mut self, position: Position, operand: Expression) -> Parsed {
        let is_optional = self.accept("?").is_some();
        let placed = self.peek();
        let (Token::Identifier(name) | Token::Escaped(name)) = placed.token else {
            return self.syntax_error(&no_field(placed));
        };
        self.advance();
        if is_optional {
            let field = self.node(placed.position, ExpressionKind::Literal(Value::text(name.to_owned())))?;
            return self.call(position, "_?._", vec![operand, field]);
        }
        // A name in backquotes is a field and never a call.
        if matches!(placed.token, Token::Identifier(_))
            && let Some(open) = self.accept("(")
        {
            let arguments = self.arguments()?;
            return macros::expand_member(self, open, name, operand, arguments);
        }
        let select =
            ExpressionKind::Select { operand: Box::new(operand), field: name.to_owned(), is_test: false };
        self.node(position, select)
    }

    fn arguments(&mut self) -> Parsed<Vec<Expression>> {
        let mut arguments = Vec::new();
        if self.accept(")").is_some() {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if self.accept(",").is_none() {
                self.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    fn primary(&mut self) -> Parsed {
        let placed = self.peek();
        let position = placed.position;
        match placed.token {
            Token::Symbol("(") => {
                self.advance();
                let expression = self.expression()?;
                self.expect(")")?;
                Ok(expression)
            }
            Token::Symbol("[") => self.list(),
            Token::Symbol("{") => self.map(),
            Token::Symbol(".") | Token::Identifier(_) => self.name(),
            Token::Symbol("-") if self.is_negative_number() => {
                self.advance();
                let literal = self.literal("-");
                self.place(position, literal)
            }
            Token::Symbol(_) | Token::Escaped(_) | Token::End => self
                .syntax_error(&format!("mismatched input '{}' expecting {START_OF_EXPRESSION}", placed.text)),
            _ => {
                let literal = self.literal("");
                self.place(position, literal)
            }
        }
    }

    fn place(&mut self, position: Position, literal: Result<Value<'static>, &'static str>) -> Parsed {
        match literal {
            Ok(value) => self.node(position, ExpressionKind::Literal(value)),
            Err(message) => self.wrong(position, message),
        }
    }

    fn literal(&mut self, sign: &str) -> Result<Value<'static>, &'static str> {
        match self.advance().token {
            Token::Int(text) => {
                integer(text, |digits, radix| i64::from_str_radix(&format!("{sign}{digits}"), radix))
                    .map(Value::Int)
                    .map_err(|_| "invalid int literal")
            }
            Token::Uint(text) => {
                integer(text, u64::from_str_radix).map(Value::Uint).map_err(|_| "invalid uint literal")
            }
            Token::Double(text) => format!("{sign}{text}")
                .parse()
                .ok()
                .filter(|number: &f64| number.is_finite())
                .map(Value::Double)
                .ok_or("invalid double literal"),
            Token::String(text) => {
                let text =
                    String::from_utf8(unquote(text, false)?).map_err(|_| "invalid unicode code point")?;
                Ok(Value::text(text))
            }
            Token::Bytes(text) => Ok(Value::bytes(unquote(text, true)?)),
            Token::Bool(value) => Ok(Value::Bool(value)),
            _ => Ok(Value::Null),
        }
    }

    /// An identifier, a call of a function, or a message with its type.
    fn name(&mut self) -> Parsed {
        let dot = self.accept(".");
        let placed = self.peek();
        let Token::Identifier(name) = placed.token else {
            return self.syntax_error(&format!("mismatched input '{}' expecting IDENTIFIER", placed.text));
        };
        if let Some(message) = self.message_name() {
            return self.message(message);
        }
        self.advance();
        if RESERVED.contains(&name) {
            let at = dot.unwrap_or(placed.position);
            // The arguments are parsed all the same, so that mistakes in them are reported at once.
            if self.accept("(").is_some() {
                self.arguments()?;
            }
            return self.wrong(at, format!("reserved identifier: {name}"));
        }
        let full = if dot.is_some() { format!(".{name}") } else { name.to_owned() };
        match self.accept("(") {
            None => self.node(placed.position, ExpressionKind::Identifier(full)),
            Some(open) => {
                let arguments = self.arguments()?;
                macros::expand_global(self, open, &full, arguments)
            }
        }
    }

    /// The name of a message's type, if names and dots up to an opening brace follow.
    fn message_name(&self) -> Option<String> {
        let mut name = String::new();
        let mut tokens = self.tokens[self.next..].iter().map(|placed| placed.token);
        loop {
            let Some(Token::Identifier(part)) = tokens.next() else { return None };
            name += part;
            match tokens.next() {
                Some(Token::Symbol(".")) => name.push('.'),
                Some(Token::Symbol("{")) => return Some(name),
                _ => return None,
            }
        }
    }

    fn message(&mut self, name: String) -> Parsed {
        // There are no messages to make, but the fields are parsed, because a mistake in them is reported first.
        while !self.is("{") {
            self.advance();
        }
        let position = self.advance().position;
        while !self.is("}") {
            self.accept("?");
            self.advance();
            self.expect(":")?;
            self.expression()?;
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        self.node(position, ExpressionKind::Message(name))
    }

    fn list(&mut self) -> Parsed {
        let position = self.advance().position;
        let mut elements = Vec::new();
        while !self.is("]") {
            let is_optional = self.accept("?").is_some();
            elements.push(Element { value: self.expression()?, is_optional });
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect_or("]", "{']', ','}")?;
        self.node(position, ExpressionKind::List(elements))
    }

    fn map(&mut self) -> Parsed {
        let position = self.advance().position;
        let mut entries = Vec::new();
        while !self.is("}") {
            let is_optional = self.accept("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            entries.push(MapEntry { key, value: self.expression()?, is_optional });
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect_or("}", "{'}', ','}")?;
        self.node(position, ExpressionKind::Map(entries))
    }

    fn peek(&self) -> Placed<'s> {
        self.tokens[self.next]
    }

    fn advance(&mut self) -> Placed<'s> {
        let placed = self.peek();
        // The end stays in place, so there is always a next token.
        if placed.token != Token::End {
            self.next += 1;
        }
        placed
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek().token, Token::Symbol(found) if found == symbol)
    }

    fn accept(&mut self, symbol: &str) -> Option<Position> {
        self.is(symbol).then(|| self.advance().position)
    }

    fn expect(&mut self, symbol: &str) -> Parsed<()> {
        if self.accept(symbol).is_some() {
            return Ok(());
        }
        let found = self.peek();
        if found.token == Token::End {
            return self.syntax_error(&format!("missing '{symbol}' at '<EOF>'")).map(drop);
        }
        self.syntax_error(&format!("mismatched input '{}' expecting '{symbol}'", found.text)).map(drop)
    }

    fn expect_or(&mut self, symbol: &str, expected: &str) -> Parsed<()> {
        if self.accept(symbol).is_some() {
            return Ok(());
        }
        let found = self.peek();
        self.syntax_error(&format!("mismatched input '{}' expecting {expected}", found.text)).map(drop)
    }

    fn syntax_error(&mut self, message: &str) -> Parsed {
        let position = self.peek().position;
        self.mistakes.push(Mistake::new(position, format!("Syntax error: {message}")));
        Err(Stop)
    }
}

fn no_field(placed: Placed<'_>) -> String {
    match placed.token {
        Token::End => "mismatched input '<EOF>' expecting {'?', IDENTIFIER, ESC_IDENTIFIER}".to_owned(),
        Token::Bool(_) | Token::Null => {
            format!("mismatched input '{}' expecting IDENTIFIER", placed.text)
        }
        _ => format!("no viable alternative at input '.{}'", placed.text),
    }
}

fn integer<T>(text: &str, parse: impl Fn(&str, u32) -> T) -> T {
    match text.strip_prefix("0x") {
        Some(digits) => parse(digits, 16),
        None => parse(text, 10),
    }
}
