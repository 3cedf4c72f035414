// The last step before the page: nothing that runs, nothing that loads from elsewhere.
import createDOMPurify from 'dompurify';

const purify = createDOMPurify(window);

// A memory that can be read by a model leaks through the address of a picture, so pictures must bring their bytes.
const INLINE_PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,/i;
const ADDRESS = /^(?:https?:|mailto:|#)/i;
const LOADS = ['srcset', 'background', 'poster', 'formaction', 'action', 'xlink:href', 'ping'];

purify.addHook('afterSanitizeAttributes', (node) => {
  for (const name of LOADS) node.removeAttribute(name);
  if (!ADDRESS.test(node.getAttribute('href') ?? '')) node.removeAttribute('href');
  if (node.nodeName === 'IMG' && !INLINE_PICTURE.test(node.getAttribute('src') ?? ''))
    node.remove();
  if (node.nodeName === 'A') {
    node.setAttribute('target', '_blank');
    node.setAttribute('rel', 'noopener noreferrer');
  }
});

export function sanitise(html: string): string {
  return purify.sanitize(html, {
    USE_PROFILES: { html: true, mathMl: true },
    FORBID_TAGS: [
      'style',
      'form',
      'input',
      'select',
      'textarea',
      'video',
      'audio',
      'source',
      'picture',
      'svg',
    ],
    FORBID_ATTR: ['style', 'id', 'name'],
    ALLOW_DATA_ATTR: true,
  });
}
