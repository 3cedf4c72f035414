// Pictures for the composer, with the words for what is wrong with them.
import { t } from '../i18n';
import { ImageError, toDataUrl } from '../services/images';
import type { Draft } from './conversation/draft.svelte';

const MAX_PICTURES = 20;

const WORDS = {
  type: t.composer.imageType,
  size: t.composer.imageSize,
  broken: t.composer.imageBroken,
};

/** Add pictures to a draft. The answer says what was wrong with the first one that could not be added. */
export async function addPictures(draft: Draft, files: readonly File[]): Promise<string | null> {
  let problem: string | null = null;
  for (const file of files) {
    if (draft.images.length >= MAX_PICTURES) return t.composer.imageCount;
    try {
      draft.setImages([...draft.images, await toDataUrl(file)]);
    } catch (error) {
      if (!(error instanceof ImageError)) throw error;
      problem ??= WORDS[error.problem];
    }
  }
  return problem;
}
