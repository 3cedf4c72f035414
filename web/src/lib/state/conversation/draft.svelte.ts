// What is being written in a chat: text is kept in this browser until it is sent, pictures while the page is open.
import { read, write } from '../../services/storage';

export class Draft {
  text = $state('');
  images = $state.raw<string[]>([]);
  #chat = 'new';
  #pictures: Record<string, string[]> = {};

  open(chatId: string | null): void {
    this.#chat = chatId ?? 'new';
    this.text = read(`draft.${this.#chat}`) ?? '';
    this.images = this.#pictures[this.#chat] ?? [];
  }

  /** Go on in a chat that was just made: what was written meanwhile moves along. */
  moveTo(chatId: string): void {
    const { text, images } = this;
    this.clear();
    this.#chat = chatId;
    this.set(text);
    this.setImages(images);
  }

  set(text: string): void {
    this.text = text;
    write(`draft.${this.#chat}`, text === '' ? null : text);
  }

  setImages(images: string[]): void {
    this.images = images;
    this.#pictures[this.#chat] = images;
  }

  /** Put a message back that was not stored, unless something new was written meanwhile. */
  restore(text: string, images: string[]): void {
    if (this.text.trim() === '') this.set(text);
    if (this.images.length === 0) this.setImages(images);
  }

  clear(): void {
    this.set('');
    this.setImages([]);
  }

  get empty(): boolean {
    return this.text.trim() === '' && this.images.length === 0;
  }
}
