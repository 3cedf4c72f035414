// The words of the first screen. A further language is a file beside `en.ts` of the type `Words`, chosen here.
import { en } from './en';

export type Words = typeof en;

export const t: Words = en;
