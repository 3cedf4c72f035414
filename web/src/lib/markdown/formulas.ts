// Formulas between $…$, $$…$$, \(…\) and \[…\]. They become plain elements that hold their source; the formula
// renderer is heavy and comes later, if at all.
import type { MarkdownIt } from 'markdown-it';

type InlineRule = Parameters<MarkdownIt['inline']['ruler']['before']>[2];
type BlockRule = Parameters<MarkdownIt['block']['ruler']['before']>[2];

const inline: InlineRule = (state, silent) => {
  const found = inlineFormula(state.src, state.pos, state.posMax);
  if (!found) return false;
  if (!silent) {
    const token = state.push('formula_inline', 'span', 0);
    token.content = found.content;
  }
  state.pos = found.end;
  return true;
};

/** `$` follows the rule of pandoc: no space inside the marks, no digit after the closing one. */
function inlineFormula(src: string, start: number, max: number) {
  const rest = src.slice(start, max);
  const match =
    /^\\\((.{1,2000}?)\\\)/s.exec(rest) ??
    /^\$(?!\$)(?! )((?:\\.|[^$\\])*?[^\s\\])\$(?!\d)/s.exec(rest);
  if (!match?.[1]) return null;
  return { content: match[1].trim(), end: start + match[0].length };
}

const MARKS: readonly (readonly [string, string])[] = [
  ['$$', '$$'],
  ['\\[', '\\]'],
];

const block: BlockRule = (state, startLine, endLine, silent) => {
  if ((state.sCount[startLine] ?? 0) - state.blkIndent >= 4) return false;
  const first = lineAt(state, startLine);
  const marks = MARKS.find(([open]) => first.startsWith(open));
  if (!marks) return false;
  const [open, close] = marks;
  const found = blockFormula(state, startLine, endLine, open, close);
  if (!found) return false;
  // An open formula must not end a paragraph: it may turn out to be none.
  if (silent) return found.closed;
  const token = state.push('formula_block', 'div', 0);
  token.block = true;
  token.content = found.content;
  token.map = [startLine, found.next];
  state.line = found.next;
  return true;
};

type BlockState = Parameters<BlockRule>[0];

function lineAt(state: BlockState, line: number): string {
  const from = (state.bMarks[line] ?? 0) + (state.tShift[line] ?? 0);
  return state.src.slice(from, state.eMarks[line]).trimEnd();
}

/** A formula runs to its closing mark, or to the end of the text while it is being written; never over a blank line. */
function blockFormula(state: BlockState, start: number, end: number, open: string, close: string) {
  const lines: string[] = [];
  for (let line = start; line < end; line++) {
    const text = line === start ? lineAt(state, line).slice(open.length) : lineAt(state, line);
    const at = text.indexOf(close);
    if (at < 0) {
      if (line > start && text === '') return null;
      lines.push(text);
      continue;
    }
    // Text after the mark: it was a formula within a paragraph.
    if (text.slice(at + close.length).trim() !== '') return null;
    lines.push(text.slice(0, at));
    return { content: lines.join('\n').trim(), next: line + 1, closed: true };
  }
  return { content: lines.join('\n').trim(), next: end, closed: false };
}

export function formulas(md: MarkdownIt): void {
  md.inline.ruler.before('escape', 'formula_inline', inline);
  md.block.ruler.before('fence', 'formula_block', block, {
    alt: ['paragraph', 'reference', 'blockquote', 'list'],
  });
}
