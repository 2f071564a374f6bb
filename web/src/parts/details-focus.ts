/** Move the keyboard focus to the details of the selection. */
export const showDetails = (): void => document.querySelector<HTMLElement>(".details")?.focus();
