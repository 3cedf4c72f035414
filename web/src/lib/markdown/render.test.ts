import { describe, expect, it } from 'vitest';

import { loadFor } from './heavy';
import { render } from './render';
import { sanitise } from './sanitise';

const page = (source: string) => {
  const element = document.createElement('div');
  element.innerHTML = render(source, {}, null);
  return element;
};

describe('rendering', () => {
  it('shows HTML as text', () => {
    expect(page('<img src=x onerror=alert(1)>').textContent).toContain('<img src=x');
    expect(page('<script>alert(1)</script>').querySelector('script')).toBeNull();
  });

  it('drops links that run code', () => {
    const links = page('[a](javascript:alert(1)) [b](data:text/html,x) [c](vbscript:x)');
    expect(links.querySelector('a[href]')).toBeNull();
  });

  it('opens links without telling where from', () => {
    const link = page('[a](https://example.org)').querySelector('a');
    expect(link?.getAttribute('rel')).toBe('noopener noreferrer');
    expect(link?.getAttribute('target')).toBe('_blank');
  });

  it('turns a remote picture into a link', () => {
    const shown = page('![a chart](https://evil.example/?q=secret)');
    expect(shown.querySelector('img')).toBeNull();
    expect(shown.querySelector('a')?.textContent).toBe('a chart');
  });

  it('finds plain addresses, without the punctuation after them', () => {
    const links = page(
      'See https://a.example/x_y_z(1). (http://b.example) nohttps://c.example `https://d.example`',
    );
    expect([...links.querySelectorAll('a')].map((a) => a.textContent)).toEqual([
      'https://a.example/x_y_z(1)',
      'http://b.example',
    ]);
  });

  it('gives code a head with its language and a copy button', () => {
    const block = page('```python\nx = "<b>"\n```');
    expect(block.querySelector('.code-head span')?.textContent).toBe('python');
    expect(block.querySelector('button[data-copy]')).not.toBeNull();
    expect(block.querySelector('code')?.textContent).toBe('x = "<b>"\n');
  });

  it('keeps what is no address: numbers of lists, columns, keys and direction of code', () => {
    expect(page('3. three\n4. four').querySelector('ol')?.getAttribute('start')).toBe('3');
    const cells = page('| a | b | c |\n|---|--:|:-:|\n| 1 | 2 | 3 |').querySelectorAll('td');
    expect([...cells].map((cell) => cell.className)).toEqual(['', 'align-right', 'align-center']);
    const block = page('```\nx\n```');
    expect(block.querySelector('pre')?.getAttribute('tabindex')).toBe('0');
    expect(block.querySelector('.code-block')?.getAttribute('dir')).toBe('ltr');
    expect(block.querySelector('button')?.getAttribute('type')).toBe('button');
  });

  it('sets a formula of its own line large, without its source among the signs', async () => {
    const source = '$$\n\\frac{60}{4} = \\mathbf{15}\n$$';
    const element = document.createElement('div');
    element.innerHTML = render(source, {}, await loadFor(source));
    const math = element.querySelector('math');
    expect(math?.getAttribute('display')).toBe('block');
    expect(math?.textContent).not.toContain('frac');
    expect(element.querySelector('[mathvariant]')?.getAttribute('mathvariant')).toBe('bold');
  });

  it('colours code and sets formulas once they are loaded', async () => {
    const source = '```js\nconst a = 1;\n```\n\n$a^2$';
    const html = render(source, {}, await loadFor(source));
    expect(html).toContain('hljs-keyword');
    expect(html).toContain('<math');
    expect(html).not.toContain('style=');
  });

  it('leaves money alone', () => {
    expect(page('It costs $5 or $6.').textContent).toBe('It costs $5 or $6.\n');
  });
});

describe('cleaning', () => {
  it.each([
    '<img src="https://evil.example/x.png">',
    '<img srcset="https://evil.example/x.png 1x">',
    '<p style="background:url(https://evil.example)">x</p>',
    '<video src="https://evil.example"></video>',
    '<form action="https://evil.example"><input></form>',
    '<svg><image href="https://evil.example"/></svg>',
    '<a href="//evil.example">x</a>',
    '<math><mtext href="//evil.example">x</mtext></math>',
    '<math><mtext><img src="//evil.example"></mtext></math>',
  ])('leaves nothing that loads from elsewhere: %s', (html) => {
    expect(sanitise(html)).not.toContain('evil.example');
  });

  it('keeps pictures that bring their bytes', () => {
    expect(sanitise('<img src="data:image/png;base64,aaaa" alt="x">')).toContain('data:image/png');
  });
});
