// Pictures on their way into a message: checked, made smaller where they are large, turned into data URLs.

const MAX_BYTES = 8 * 1024 * 1024;
const MAX_EDGE = 1568;
const ACCEPTED = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

export type ImageProblem = 'type' | 'size' | 'broken';

export class ImageError extends Error {
  readonly problem: ImageProblem;

  constructor(problem: ImageProblem, options?: ErrorOptions) {
    super(problem, options);
    this.problem = problem;
  }
}

/** Width and height after shrinking so that the longest edge is at most 1568 px. */
export function fitted(width: number, height: number): { width: number; height: number } {
  const scale = Math.min(1, MAX_EDGE / Math.max(width, height));
  return {
    width: Math.max(1, Math.round(width * scale)),
    height: Math.max(1, Math.round(height * scale)),
  };
}

/** The data URL of a picture. One that fits keeps its bytes and type; a larger one is drawn smaller. */
export async function toDataUrl(file: Blob): Promise<string> {
  if (!ACCEPTED.includes(file.type)) throw new ImageError('type');
  const bitmap = await createImageBitmap(file).catch((cause: unknown) => {
    throw new ImageError('broken', { cause });
  });
  try {
    const size = fitted(bitmap.width, bitmap.height);
    const same = size.width === bitmap.width && size.height === bitmap.height;
    const blob = same ? file : await drawn(bitmap, size, file.type);
    if (blob.size > MAX_BYTES) throw new ImageError('size');
    return await readDataUrl(blob);
  } finally {
    bitmap.close();
  }
}

async function drawn(
  bitmap: ImageBitmap,
  size: { width: number; height: number },
  type: string,
): Promise<Blob> {
  const canvas = document.createElement('canvas');
  Object.assign(canvas, size);
  canvas.getContext('2d')?.drawImage(bitmap, 0, 0, size.width, size.height);
  const target = type === 'image/png' ? 'image/png' : 'image/jpeg';
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new ImageError('broken'))), target, 0.9);
  });
}

function readDataUrl(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new ImageError('broken', { cause: reader.error }));
    reader.readAsDataURL(blob);
  });
}
