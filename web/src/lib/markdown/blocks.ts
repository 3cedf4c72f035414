// Markdown that is still being written, cut into blocks of which only the last can change.
//
// A block of CommonMark that is followed by another is closed for good, provided that the lines that say so are
// complete ("#" may still become "#1"). So the text before the last block of the complete lines never needs to be
// looked at again. The one thing that works backwards is a link definition, hence `references`.
import { undecidedFrom } from './formulas';
import { parser, type References } from './parser';

export interface Block {
  source: string;
  /** False for the last block while the text grows. */
  closed: boolean;
}

export interface Blocks {
  blocks: Block[];
  references: References;
}

export class BlockSplitter {
  #text = '';
  #tail = 0;
  #closed: Block[] = [];
  #references: References = {};
  #known: References = {};

  /** Blocks of `text`. Cheap when it continues the text of the call before. */
  split(text: string, finished: boolean): Blocks {
    if (!text.startsWith(this.#text)) this.#reset();
    this.#text = text;
    this.#close();
    const rest = text.slice(this.#tail);
    const env = { references: { ...this.#references } };
    if (rest.includes(']:')) parser.parse(rest, env);
    const last = rest.trim() === '' ? [] : [{ source: rest, closed: finished }];
    // The same object while nothing was defined, so that finished blocks are not rendered again.
    if (!same(env.references, this.#known)) this.#known = env.references;
    return { blocks: [...this.#closed, ...last], references: this.#known };
  }

  /** Move the border of what is final up to the last block of the complete lines. */
  #close(): void {
    const end = this.#text.lastIndexOf('\n') + 1;
    if (end <= this.#tail) return;
    const complete = this.#text.slice(this.#tail, end);
    const lines = complete.slice(0, undecidedFrom(complete));
    const env = { references: { ...this.#references } };
    const starts = parser
      .parse(lines, env)
      .flatMap((token) =>
        token.level === 0 && token.nesting >= 0 && token.map ? [token.map[0]] : [],
      );
    if (starts.length < 2) return;
    const offsets = lineOffsets(lines);
    // What lies before the first block (blank lines, link definitions) goes with it.
    const borders = [0, ...starts.slice(1).map((line) => offsets[line] ?? lines.length)];
    for (let n = 0; n + 1 < borders.length; n++) {
      this.#closed.push({ source: lines.slice(borders[n], borders[n + 1]), closed: true });
    }
    const settled = borders.at(-1) ?? 0;
    parser.parse(lines.slice(0, settled), { references: this.#references });
    this.#tail += settled;
  }

  #reset(): void {
    this.#tail = 0;
    this.#closed = [];
    this.#references = {};
    this.#known = {};
  }
}

const same = (a: References, b: References) => JSON.stringify(a) === JSON.stringify(b);

function lineOffsets(text: string): number[] {
  const offsets = [0];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) offsets.push(at + 1);
  return offsets;
}
