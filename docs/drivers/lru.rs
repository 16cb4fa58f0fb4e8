// A cache by recency in Rust, standard library only, and the driver that holds it to the specification.
//
//     rustc -O -o lru_rs docs/drivers/lru.rs
//     cacheproof fuzz lru --target "exec:./lru_rs"

use std::{collections::HashMap, io, io::BufRead, io::Write};

// The implementation under test: it knows nothing of the protocol.

#[derive(Default)]
struct Cache {
    capacity: i64,
    entries: Vec<(i64, i64)>, // key and size, oldest first
    hits: i64,
    total: i64,
    reported: (i64, i64),
}

impl Cache {
    fn new(capacity: i64) -> Self {
        Cache { capacity, ..Cache::default() }
    }

    fn place(&self, key: i64) -> Option<usize> {
        self.entries.iter().position(|entry| entry.0 == key)
    }

    fn used(&self) -> i64 {
        self.entries.iter().map(|entry| entry.1).sum()
    }

    fn touch(&mut self, key: i64) -> bool {
        let Some(place) = self.place(key) else { return false };
        self.entries[place..].rotate_left(1); // it becomes the youngest
        true
    }

    fn get(&mut self, key: i64) -> bool {
        let known = self.touch(key);
        self.hits += i64::from(known);
        self.total += 1;
        known
    }

    fn pop(&mut self, key: i64) -> bool {
        self.place(key).map(|place| self.entries.remove(place)).is_some()
    }

    fn put(&mut self, key: i64, size: i64) -> bool {
        if size > self.capacity {
            return false;
        }
        loop {
            let own = self.place(key).map_or(0, |place| self.entries[place].1);
            if self.used() - own + size <= self.capacity {
                break;
            }
            self.entries.remove(0);
        }
        self.pop(key);
        self.entries.push((key, size));
        true
    }

    fn stat(&mut self) -> Vec<i64> {
        let since = vec![self.hits - self.reported.0, self.total - self.reported.1];
        self.reported = (self.hits, self.total);
        since
    }
}

// Messages: one flat object a line, of strings, integers, and arrays that this cache does not need and skips.

#[derive(Default)]
struct Message {
    texts: HashMap<String, String>,
    numbers: HashMap<String, i64>,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn message(&mut self) -> Option<Message> {
        let mut found = Message::default();
        self.expect(b'{')?;
        while self.peek() != b'}' {
            let key = self.text()?;
            self.expect(b':')?;
            match self.peek() {
                b'"' => drop(found.texts.insert(key, self.text()?)),
                b'[' => self.array(0)?,
                _ => drop(found.numbers.insert(key, self.number()?)),
            }
            self.between(b'}')?;
        }
        self.expect(b'}')?;
        (self.peek() == 0).then_some(found)
    }

    fn peek(&mut self) -> u8 {
        while self.at < self.bytes.len() && self.bytes[self.at].is_ascii_whitespace() {
            self.at += 1;
        }
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        let there = self.peek() == wanted;
        self.at += usize::from(there);
        there.then_some(())
    }

    fn between(&mut self, end: u8) -> Option<()> {
        if self.peek() == end { Some(()) } else { self.expect(b',') }
    }

    fn text(&mut self) -> Option<String> { // what is asked of this driver has no escapes in it
        self.expect(b'"')?;
        let length = self.bytes[self.at..].iter().position(|&byte| byte == b'"')?;
        let found = String::from_utf8(self.bytes[self.at..self.at + length].to_vec()).ok()?;
        self.at += length + 1;
        Some(found)
    }

    fn number(&mut self) -> Option<i64> {
        let begin = self.at;
        while self.at < self.bytes.len() && (self.bytes[self.at] == b'-' || self.bytes[self.at].is_ascii_digit()) {
            self.at += 1;
        }
        std::str::from_utf8(&self.bytes[begin..self.at]).ok()?.parse().ok()
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.expect(b'[').filter(|_| depth < 8)?;
        while self.peek() != b']' {
            match self.peek() {
                b'[' => self.array(depth + 1)?,
                b'"' => drop(self.text()?),
                _ => drop(self.number()?),
            }
            self.between(b']')?;
        }
        self.expect(b']')
    }
}

// The driver: what it has is said in hello; pins are not there, so they are not asked for.

const HELLO: &str = r#"{"answer":"hello","protocol":"1.0","spec":"0.1","implementation":"docs/drivers/lru.rs","components":["lru"],"features":["lru/operation/contains","lru/operation/lookup","lru/operation/get","lru/operation/put","lru/operation/touch","lru/operation/pop","lru/operation/clear","lru/operation/stat"]}"#;

fn shown(cache: &Cache) -> String {
    let (keys, sizes): (Vec<i64>, Vec<i64>) = cache.entries.iter().copied().unzip();
    let (used, hits, total) = (cache.used(), cache.hits, cache.total);
    format!(r#""order":{keys:?},"sizes":{sizes:?},"used":{used},"hits":{hits},"total":{total}}}"#)
}

fn call(cache: &mut Cache, asked: &Message) -> Option<String> {
    let key = asked.numbers.get("key").copied();
    let said = |yes: bool, right: &'static str, wrong: &'static str| if yes { right } else { wrong };
    let mut values = Vec::new();
    let code = match asked.texts.get("op")?.as_str() {
        "put" => said(cache.put(key?, *asked.numbers.get("size")?), "done", "too_large"),
        "get" => said(cache.get(key?), "hit", "miss"),
        "lookup" => said(cache.place(key?).is_some() && cache.get(key?), "hit", "absent"),
        "contains" => said(cache.place(key?).is_some(), "hit", "miss"),
        "touch" => said(cache.touch(key?), "done", "absent"),
        "pop" => said(cache.pop(key?), "done", "absent"),
        "clear" => { *cache = Cache::new(cache.capacity); "done" }
        "stat" => { values = cache.stat(); "done" }
        _ => "unsupported",
    };
    Some(format!(r#"{{"answer":"outcome","code":"{code}","values":{values:?},{}"#, shown(cache)))
}

fn answered(cache: &mut Cache, line: &[u8]) -> Option<String> {
    let asked = Reader { bytes: line, at: 0 }.message()?;
    match asked.texts.get("do")?.as_str() {
        "hello" => return Some(HELLO.into()),
        "apply" => return call(cache, &asked),
        "init" => *cache = Cache::new(*asked.numbers.get("capacity")?),
        "reset" => *cache = Cache::new(cache.capacity),
        "bye" => std::process::exit(0),
        _ => {}
    }
    Some(format!(r#"{{"answer":"state",{}"#, shown(cache)))
}

fn main() -> io::Result<()> {
    let mut cache = Cache::default();
    let refused = r#"{"answer":"error","error":"not_a_message","text":"not understood"}"#;
    for line in io::stdin().lock().split(b'\n') {
        let answer = answered(&mut cache, &line?).unwrap_or_else(|| refused.into());
        writeln!(io::stdout(), "{answer}")?;
        io::stdout().flush()?; // the other side waits for it
    }
    Ok(())
}
