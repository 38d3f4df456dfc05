/** Finds many literal texts at once; texts come and go one by one. */
export interface LiteralMatcher {
  /**
   * Looks for `text` from now on. When it is only the head of something longer, `reach` is the length of the whole.
   * A text that is added twice has to be removed twice.
   */
  add(text: string, reach?: number): void;
  /** Undoes one `add` of the same text. */
  remove(text: string): void;
  /**
   * Where the longest text that begins at `from` ends in `subject`; -1 when none begins there. A text that agrees for 64
   * characters and then ends differently, or is cut off, counts as far as it agrees.
   */
  match(subject: string, from: number): number;
}

interface Node {
  label: string;
  /** How often a text that ends here was added. */
  count: number;
  reach: number;
  children: Map<number, Node>;
}

/** So much agreement is no accident, and it bounds the work: no character of a subject is looked at more often. */
const CERTAIN_LENGTH = 64;

/** A tree of common beginnings, so that adding, removing and matching cost no more than the length of a text. */
export function createLiteralMatcher(): LiteralMatcher {
  const root = nodeOf('', 0, 0);

  return {
    add(text, reach = text.length) {
      let parent = root;
      for (let at = 0; at < text.length; ) {
        const child = parent.children.get(text.charCodeAt(at));
        if (child === undefined) {
          parent.children.set(text.charCodeAt(at), nodeOf(text.slice(at), 1, reach));
          return;
        }
        const shared = agreement(child.label, text, at);
        if (shared < child.label.length) split(child, shared);
        at += shared;
        parent = child;
      }
      parent.count += 1;
      parent.reach = Math.max(parent.reach, reach);
    },
    remove(text) {
      let parent = root;
      let node = root;
      for (let at = 0; at < text.length; ) {
        const child = node.children.get(text.charCodeAt(at));
        if (child === undefined || !text.startsWith(child.label, at)) return;
        at += child.label.length;
        parent = node;
        node = child;
      }
      if (node === root || node.count === 0) return;
      node.count -= 1;
      if (node.count > 0) return;
      node.reach = 0;
      if (node.children.size === 0) parent.children.delete(node.label.charCodeAt(0));
      for (const touched of [node, parent]) if (touched !== root) join(touched);
    },
    match(subject, from) {
      let end = -1;
      let at = from;
      let node = root;
      for (;;) {
        const child = node.children.get(subject.charCodeAt(at));
        if (child === undefined) break;
        const shared = agreement(child.label, subject, at);
        at += shared;
        if (shared < child.label.length) break;
        if (child.count > 0) end = Math.max(end, from + child.reach);
        node = child;
      }
      if (at - from >= CERTAIN_LENGTH) end = Math.max(end, at);
      return Math.min(end, subject.length);
    },
  };
}

function nodeOf(label: string, count: number, reach: number): Node {
  return { label, count, reach, children: new Map() };
}

/** How many characters of `label` stand in `subject` at `from`. */
function agreement(label: string, subject: string, from: number): number {
  const longest = Math.min(label.length, subject.length - from);
  let shared = 0;
  while (shared < longest && label.charCodeAt(shared) === subject.charCodeAt(from + shared)) shared += 1;
  return shared;
}

function split(node: Node, at: number): void {
  const rest: Node = { ...node, label: node.label.slice(at) };
  node.label = node.label.slice(0, at);
  node.count = 0;
  node.reach = 0;
  node.children = new Map([[rest.label.charCodeAt(0), rest]]);
}

/** Takes in the only child of a node at which no text ends. */
function join(node: Node): void {
  const [only] = node.children.values();
  if (only === undefined || node.children.size > 1 || node.count > 0) return;
  node.label += only.label;
  node.count = only.count;
  node.reach = only.reach;
  node.children = only.children;
}
