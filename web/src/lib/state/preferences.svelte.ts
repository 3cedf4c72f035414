// Choices of this browser: theme, last model and persona, and what was chosen in each chat.
import { read, readJson, write } from '../services/storage';

export type Theme = 'system' | 'light' | 'dark';

export interface Choice {
  model?: string;
  personaId?: number;
}

export class Preferences {
  theme = $state<Theme>('system');
  autoTitle = $state(true);

  constructor() {
    const theme = read('theme');
    if (theme === 'light' || theme === 'dark') this.theme = theme;
    this.autoTitle = read('autoTitle') !== 'off';
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    write('theme', theme === 'system' ? null : theme);
    this.applyTheme();
  }

  setAutoTitle(on: boolean): void {
    this.autoTitle = on;
    write('autoTitle', on ? null : 'off');
  }

  applyTheme(): void {
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    const shown = this.theme === 'system' ? (dark ? 'dark' : 'light') : this.theme;
    document.documentElement.dataset['theme'] = shown;
  }

  /** Follow the system's theme while the page is open. */
  followSystem(): () => void {
    const query = matchMedia('(prefers-color-scheme: dark)');
    const update = () => this.applyTheme();
    query.addEventListener('change', update);
    return () => query.removeEventListener('change', update);
  }

  choiceOf(chatId: string | null): Choice {
    return readJson<Choice>(`choice.${chatId ?? 'new'}`) ?? {};
  }

  keepChoice(chatId: string | null, choice: Choice): void {
    const text = JSON.stringify(choice);
    write(`choice.${chatId ?? 'new'}`, text);
    write('choice.new', text);
  }
}
