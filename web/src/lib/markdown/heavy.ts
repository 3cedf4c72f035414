// What Markdown needs only now and then, loaded when a block asks for it.

export interface Heavy {
  highlight(source: string, language: string): string | null;
  formula(source: string, block: boolean): string | null;
}

type Highlighter = (source: string, language: string) => string | null;
type Formula = (source: string, block: boolean) => string | null;

let highlighter: Highlighter | null = null;
let formula: Formula | null = null;
let loadingCode: Promise<void> | null = null;
let loadingFormulas: Promise<void> | null = null;

const heavy: Heavy = {
  highlight: (source, language) => highlighter?.(source, language) ?? null,
  formula: (source, block) => formula?.(source, block) ?? null,
};

/** Which heavy parts `source` would use. */
export function wants(source: string): { code: boolean; formulas: boolean } {
  return { code: /(?:```|~~~)/.test(source), formulas: /\$|\\[([]/.test(source) };
}

/** Load what `source` uses. Rendering without it is plain, never wrong, so a failure only costs colours. */
export async function loadFor(source: string): Promise<Heavy> {
  const need = wants(source);
  if (need.code) await (loadingCode ??= loadCode());
  if (need.formulas) await (loadingFormulas ??= loadFormulas());
  return heavy;
}

async function loadCode(): Promise<void> {
  const { default: hljs } = await import('highlight.js/lib/common');
  highlighter = (source, language) => {
    if (!hljs.getLanguage(language)) return null;
    return hljs.highlight(source, { language, ignoreIllegals: true }).value;
  };
}

async function loadFormulas(): Promise<void> {
  const { default: katex } = await import('katex');
  // MathML needs neither fonts nor inline styles: the browser sets it.
  formula = (source, block) => {
    const options = { displayMode: block, output: 'mathml', throwOnError: false } as const;
    // The source that comes along is for machines; cleaning would leave its text among the signs.
    return katex.renderToString(source, options).replace(/<annotation[^]*?<\/annotation>/g, '');
  };
}
