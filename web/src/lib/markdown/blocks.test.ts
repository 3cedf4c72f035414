import { describe, expect, it } from 'vitest';

import { BlockSplitter } from './blocks';
import { parser } from './parser';
import { render } from './render';
import { sanitise } from './sanitise';

const texts = {
  prose: 'One *two* three.\nStill one.\n\nAnother **paragraph** with `code`.\n',
  headings: 'Title\n=====\n\n# One\ntext right below\n\nb\n#\nc\n#1 is no heading\n\nLast\n---\n',
  lists:
    '- a\n- b\n\n  loose\n- c\n    - nested\n\n      deep\n* other list\n1. x\n1) y\n\n\n3. z\n',
  code: '```js\nconst a = 1;\n\n# not a heading\n```\nafter\n\n    indented\n\n    still\n\n~~~\nopen to the end\n',
  tables: 'a para\n\n| a | b |\n|---|---|\n| 1 | 2 |\nlazy\n\nx | y\n--|--\n1 | 2\n',
  quotes: '> a\nlazy\n\n> b\n> - c\n\n---\n***\ntext\n',
  references:
    'See [one] and [two].\n\n[one]: https://a.example "A"\n\nMore [two][one].\n\n[two]:\nhttps://b.example\n',
  formulas:
    'a\n$$ x\ny $$\nb\n\n$$\nx^2\n$$\n\n$$ open\n\nprice: $5 and $6, $x+1$.\n\n\\[\na\n\\]\n\nx \\(y\\) z\n\n$$ a $$ tail\n',
  html: '<div onclick="x()">\n\n<script>alert(1)</script>\n\n<!-- c -->\ntext & &copy; &#x41;\n',
  windows: 'a\r\n\r\nb\r\n\r\n- c\r\n- d\r\n',
};

function rendered(text: string, finished = true, splitter = new BlockSplitter()): string {
  const { blocks, references } = splitter.split(text, finished);
  return blocks.map((block) => render(block.source, references, null)).join('');
}

// A small generator with a seed, so that a failure can be repeated.
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
}

function streamed(text: string, seed: number): string {
  const next = random(seed);
  const splitter = new BlockSplitter();
  for (let end = 0; end < text.length; end += 1 + Math.floor(next() * 7)) {
    splitter.split(text.slice(0, end), false);
  }
  return rendered(text, true, splitter);
}

describe('Markdown that arrives in pieces', () => {
  it.each(Object.entries(texts))('gives the same page as the whole: %s', (_name, text) => {
    const whole = sanitise(parser.render(text, { heavy: null }));
    for (let seed = 1; seed <= 15; seed++) expect(streamed(text, seed)).toBe(whole);
  });

  it('gives the same page as the whole for any mixture of lines', () => {
    const lines = Object.values(texts).flatMap((text) => text.split('\n'));
    for (let seed = 1; seed <= 120; seed++) {
      const next = random(seed);
      const count = 3 + Math.floor(next() * 12);
      const text = Array.from(
        { length: count },
        () => lines[Math.floor(next() * lines.length)],
      ).join('\n');
      expect(streamed(text, seed), JSON.stringify(text)).toBe(
        sanitise(parser.render(text, { heavy: null })),
      );
    }
  });

  it('leaves closed blocks as they are while the last one grows', () => {
    const splitter = new BlockSplitter();
    const before = splitter.split('One.\n\nTwo.\n\nThr', false).blocks;
    const after = splitter.split('One.\n\nTwo.\n\nThree, and more', false).blocks;
    expect(after).toHaveLength(2);
    expect(after[0]).toBe(before[0]);
    expect(after.at(-1)).toEqual({ source: 'Two.\n\nThree, and more', closed: false });
  });

  it('starts again when the text is not a continuation', () => {
    const splitter = new BlockSplitter();
    splitter.split('a\n\nb\n\nc', false);
    const { blocks } = splitter.split('x\n\ny\n\nz', true);
    expect(blocks.map((block) => block.source)).toEqual(['x\n\n', 'y\n\nz']);
  });
});
