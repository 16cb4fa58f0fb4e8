// A cache by recency in TypeScript, and the driver that holds it to the specification over the line protocol.
//
//     cacheproof fuzz lru --target "exec:node docs/drivers/lru.ts"
//
// Node 22.18 and newer run it as it is; for an older one: tsc --target es2022 --outDir build docs/drivers/lru.ts

// What it needs of Node, so that no package with types has to be installed.
declare const process: {
  stdin: { setEncoding(name: string): void; on(event: "data" | "end", listen: (text: string) => void): void };
  stdout: { write(text: string): void };
  exit(status: number): void;
};

// The implementation under test: it knows nothing of the protocol. A map keeps the order of insertion, oldest first.

class LruCache {
  readonly entries = new Map<number, number>();
  readonly capacity: number;
  hits = 0;
  total = 0;
  private reported: [number, number] = [0, 0];

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  used(): number {
    return [...this.entries.values()].reduce((sum, size) => sum + size, 0);
  }

  touch(key: number): boolean {
    const size = this.entries.get(key);
    if (size === undefined) return false;
    this.entries.delete(key);
    this.entries.set(key, size);
    return true;
  }

  get(key: number): boolean {
    const known = this.touch(key);
    this.hits += Number(known);
    this.total += 1;
    return known;
  }

  put(key: number, size: number): boolean {
    if (size > this.capacity) return false;
    while (this.used() - (this.entries.get(key) ?? 0) + size > this.capacity) {
      const [oldest] = this.entries.keys();
      this.entries.delete(oldest);
    }
    this.entries.delete(key);
    this.entries.set(key, size);
    return true;
  }

  stat(): number[] {
    const [hits, total] = this.reported;
    this.reported = [this.hits, this.total];
    return [this.hits - hits, this.total - total];
  }
}

// The driver: what it has is said in hello; pins are not there, so they are not asked for.

type Value = string | number | Value[];
type Message = { [key: string]: Value };

const OPERATIONS = ["contains", "lookup", "get", "put", "touch", "pop", "clear", "stat"];
const HELLO: Message = {
  answer: "hello",
  protocol: "1.0",
  spec: "0.1",
  implementation: "docs/drivers/lru.ts",
  components: ["lru"],
  features: OPERATIONS.map((name) => `lru/operation/${name}`),
};

let cache = new LruCache(0);

function shown(): Message {
  const { entries, hits, total } = cache;
  return { order: [...entries.keys()], sizes: [...entries.values()], used: cache.used(), hits, total };
}

function integer(asked: Message, name: string): number {
  const value = asked[name];
  if (!Number.isSafeInteger(value)) throw new Error(`${name} must be an integer`);
  return value as number;
}

function call(asked: Message): Message {
  const said = (yes: boolean, right: string, wrong: string): Message => ({ code: yes ? right : wrong });
  const key = (): number => integer(asked, "key");
  switch (asked.op) {
    case "put":
      return said(cache.put(key(), integer(asked, "size")), "done", "too_large");
    case "get":
      return said(cache.get(key()), "hit", "miss");
    case "lookup":
      return said(cache.entries.has(key()) && cache.get(key()), "hit", "absent");
    case "contains":
      return said(cache.entries.has(key()), "hit", "miss");
    case "touch":
      return said(cache.touch(key()), "done", "absent");
    case "pop":
      return said(cache.entries.delete(key()), "done", "absent");
    case "clear":
      cache = new LruCache(cache.capacity);
      return { code: "done" };
    case "stat":
      return { code: "done", values: cache.stat() };
    case undefined:
      throw new Error("apply needs op");
    default:
      return { code: "unsupported" };
  }
}

function answered(line: string): Message {
  const asked = JSON.parse(line) as Message;
  switch (asked.do) {
    case "hello":
      return HELLO;
    case "bye":
      return { answer: "bye" };
    case "apply": {
      const outcome = call(asked);
      return { answer: "outcome", ...outcome, ...shown() };
    }
    case "init":
      cache = new LruCache(integer(asked, "capacity"));
      break;
    case "reset":
      cache = new LruCache(cache.capacity);
  }
  return { answer: "state", ...shown() };
}

function reply(line: string): void {
  let answer: Message;
  try {
    answer = answered(line);
  } catch (error) {
    answer = { answer: "error", error: "not_a_message", text: String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
  if (answer.answer === "bye") process.exit(0);
}

let pending = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (text: string) => {
  const lines = (pending + text).split("\n");
  pending = lines.pop() ?? "";
  lines.forEach(reply);
});
