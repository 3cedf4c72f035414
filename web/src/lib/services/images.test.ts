import { describe, expect, it } from 'vitest';

import { fitted, ImageError, toDataUrl } from './images';

describe('pictures', () => {
  it.each([
    [1568, 1000, 1568, 1000],
    [3136, 1000, 1568, 500],
    [100, 4000, 39, 1568],
    [1, 99999, 1, 1568],
  ])('fits %i × %i into %i × %i', (width, height, w, h) => {
    expect(fitted(width, height)).toEqual({ width: w, height: h });
  });

  it('refuses other kinds of file', async () => {
    await expect(toDataUrl(new Blob(['x'], { type: 'image/svg+xml' }))).rejects.toBeInstanceOf(
      ImageError,
    );
  });
});
