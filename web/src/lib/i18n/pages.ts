// All words. For what is loaded on use: the first screen has no room for them.
import { enPages } from './en.pages';
import { t as first, type Words } from './index';

export type PageWords = typeof enPages;

export const t: Words & PageWords = { ...first, ...enPages };
