// Reading a file that a person chose.
import { t } from '../../i18n';

/** The content of a JSON file; anything else fails with words that say so. */
export async function readJsonFile(file: Blob): Promise<unknown> {
  const text = await file.text();
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new Error(t.app.wrongFile, { cause });
  }
}
