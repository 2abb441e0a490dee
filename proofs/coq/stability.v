(* F9: the inverse of a chunk's triangular matrix 1 + T (gated.v), over any ordered field: its closed form, |entries|
   <= b_t below the diagonal, norm <= 1 + (n - 1) max b. F6 (iii), that a delta step does not lengthen, comes first.
   *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import gated lengths.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Stability.
Variables (R : realFieldType) (dk n : nat) (k : nat -> 'cV[R]_dk) (a b : nat -> R).

Lemma dot_inner (x y : 'cV[R]_dk) : dot x y = inner x y.
Proof. by rewrite /dot /inner mxE; apply: eq_bigr => i _; rewrite mxE. Qed.

(* One step of the delta rule on a vector of the state: x - b k (k . x). *)
Definition step (b : R) (k x : 'cV[R]_dk) := (1%:M - b *: (k *m k^T)) *m x.

Lemma stepE c (x y : 'cV[R]_dk) : step c x y = y - (c * dot x y) *: x.
Proof. by rewrite /step mulmxBl mul1mx -scalemxAl -mulmxA dotE mul_mx_scalar scalerA. Qed.

(* F6 (iii): for b >= 0 and b |k|^2 <= 2 a step makes no vector longer. *)
Theorem F6_contraction c (x y : 'cV[R]_dk) : 0 <= c -> c * len2 x <= 2%:R -> len2 (step c x y) <= len2 y.
Proof.
move=> c0 c2; rewrite stepE dot_inner -scaleNr len2D len2Z sqrrN.
have -> : inner y (- (c * inner x y) *: x) = - (c * inner x y ^+ 2).
  rewrite expr2 mulrA -[RHS]mulNr; move: (- (c * _)) => s; rewrite /inner mulr_sumr; apply: eq_bigr => i _.
  by rewrite mxE mulrCA [x i 0 * _]mulrC.
rewrite -addrA ger_addl; set I := inner x y ^+ 2.
have -> : (c * inner x y) ^+ 2 * len2 x + - (c * I) *+ 2 = c * I * (c * len2 x - 2%:R).
  by rewrite mulrBr exprMn mulNrn mulr_natr; congr (_ - _); rewrite [c ^+ 2]expr2 [RHS]mulrACA !mulrA.
by apply: mulr_ge0_le0; rewrite ?subr_le0 // mulr_ge0 // sqr_ge0.
Qed.

(* The state into which token j alone has written its key, before token t. *)
Fixpoint pulse j t : 'cV[R]_dk :=
  if t is s.+1 then if s == j then k j else a s *: step (b s) (k s) (pulse j s) else 0.

Definition entry (t j : nat) : R := (t == j)%:R - b t * a t * dot (k t) (pulse j t).

Lemma pulse0 j t : (t <= j)%N -> pulse j t = 0.
Proof.
elim: t => //= t IH lt; rewrite ltn_eqF // IH ?(ltnW lt) //.
by rewrite /step mulmx0 scaler0.
Qed.

Lemma pulseS j t : pulse j t.+1 = a t *: pulse j t + entry t j *: k t.
Proof.
rewrite /= /entry; case: eqP => [->|_]; first by rewrite pulse0 // /dot mulmx0 mxE mulr0 subr0 scaler0 add0r scale1r.
by rewrite sub0r stepE scalerBr scalerA scaleNr mulrA [a t * b t]mulrC.
Qed.

Lemma pulse_sum j t : pulse j t = \sum_(i < t) (Lam a t i * entry i j) *: k i.
Proof.
elim: t => [|t IH]; first by rewrite big_ord0.
rewrite pulseS IH big_ord_recr /= Lam_own mul1r; congr (_ + _).
by rewrite scaler_sumr; apply: eq_bigr => i _; rewrite scalerA LamS // mulrA.
Qed.

(* F9, closed form: 1 on the diagonal, and below it -b_t a_t k_t . (a step for every token between t and j) k_j. *)
Theorem F9_closed : invmx (1%:M + Tmx k a b n) = \matrix_(t, j) entry t j.
Proof.
set E := \matrix_(t, j) _.
suff TE : (1%:M + Tmx k a b n) *m E = 1%:M by rewrite -[RHS](mulKmx (UT_unit n k a b)) TE mulmx1.
apply/matrixP => t j; rewrite mulmxDl mul1mx [LHS]mxE mxE [1%:M _ _]mxE mxE.
have -> : \sum_i Tmx k a b n t i * E i j = b t * a t * dot (k t) (pulse j t).
  have dot_sum s (c : nat -> R) : dot (k t) (\sum_(i < s) c i *: k i) = \sum_(i < s) c i * dot (k i) (k t).
    elim: s => [|s IH]; first by rewrite !big_ord0 /dot mulmx0 mxE.
    rewrite !big_ord_recr /= -IH /dot mulmxDr -scalemxAr !mxE; congr (_ + _ * _).
    by apply: eq_bigr => i _; rewrite !mxE mulrC.
  rewrite pulse_sum (dot_sum t (fun i => Lam a t i * entry i j)) mulr_sumr.
  rewrite (big_ord_widen n (fun i => b t * a t * (Lam a t i * entry i j * dot (k i) (k t))) (ltnW (ltn_ord t))).
  rewrite [RHS]big_mkcond /=.
  apply: eq_bigr => i _; rewrite !mxE; case: ifP => [lt|_]; last by rewrite mul0r.
  by rewrite LamS // -!mulrA; congr (_ * (_ * (_ * _))); rewrite mulrC.
by rewrite /entry subrK; congr (_%:R).
Qed.

Hypothesis b0 : forall t, 0 <= b t.
Hypothesis k1 : forall t, len2 (k t) <= 1.
Hypothesis bk : forall t, b t * len2 (k t) <= 2%:R.
Hypothesis a01 : forall t, 0 <= a t <= 1.

Lemma pulse1 j t : len2 (pulse j t) <= 1.
Proof.
elim: t => [|t IH] /=; first by rewrite len2_0 ler01.
case: eqP => // _; rewrite len2Z; have /andP[a0 a1] := a01 t.
rewrite -[1]mulr1; apply: ler_pmul; rewrite ?sqr_ge0 ?len2_ge0 //; first exact: exprn_ile1.
by apply: le_trans IH; apply: F6_contraction.
Qed.

Lemma entry_le t j : (j < t)%N -> `|entry t j| <= b t.
Proof.
move=> lt; have /andP[a0 a1] := a01 t; rewrite /entry gtn_eqF // sub0r normrN !normrM ger0_norm // -mulrA.
rewrite -[X in _ <= X]mulr1; apply: ler_wpmul2l => //; rewrite ger0_norm // -[1]mulr1; apply: ler_pmul => //.
rewrite dot_inner -(@ler_pexpn2r _ 2) ?nnegrE ?ler01 // real_normK ?num_real // expr1n.
by apply: le_trans (inner_le _ _) _; rewrite -[1]mulr1; apply: ler_pmul; rewrite ?len2_ge0 ?k1 ?pulse1.
Qed.

(* F9: below the diagonal |entry| <= b_t. *)
Theorem F9_entries (t j : 'I_n) : (j < t)%N -> `|invmx (1%:M + Tmx k a b n) t j| <= b t.
Proof. by move=> lt; rewrite F9_closed mxE entry_le. Qed.

(* F9: the norm is at most 1 + (n - 1) max b. *)
Theorem F9_norm bmax : (forall t, b t <= bmax) -> bounded (1 + n.-1%:R * bmax) (invmx (1%:M + Tmx k a b n)).
Proof.
move=> bm; have bmax0 : 0 <= bmax by apply: le_trans (bm 0%N).
rewrite F9_closed.
have le (t j : 'I_n) : `|entry t j| <= (if t == j then 1 else bmax).
  rewrite -val_eqE /=; case: ltngtP => [lt|lt|e].
  - by rewrite /entry ltn_eqF // pulse0 ?(ltnW lt) // /dot mulmx0 mxE mulr0 subr0 normr0.
  - exact: le_trans (entry_le lt) _.
  by rewrite /entry e eqxx pulse0 // /dot mulmx0 mxE mulr0 subr0 normr1.
have sums (i : 'I_n) : \sum_j (if i == j then 1 else bmax) = 1 + n.-1%:R * bmax.
  rewrite (bigD1 i) //= eqxx; congr (_ + _).
  rewrite (eq_bigr (fun _ => bmax)) => [|j ne]; last by rewrite eq_sym (negbTE ne).
  by rewrite sumr_const cardC1 card_ord mulr_natl.
apply: bounded_sums => i.
- by rewrite -(sums i); apply: ler_sum => j _; rewrite mxE.
rewrite -(sums i); apply: ler_sum => j _; rewrite mxE eq_sym; exact: le.
Qed.
End Stability.
