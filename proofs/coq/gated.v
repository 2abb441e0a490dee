(* The gated delta rule: claims F6, F7, E4, F8 of proofs/gates.md (and F3 by the way), over any commutative ring: the proof needs
   no order, no division and no exponential. Tokens are numbered from 0; S t is the state before token t. *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Transpose.
Variable R : comRingType.
Lemma tr_add m n (A B : 'M[R]_(m, n)) : (A + B)^T = A^T + B^T. Proof. by apply/matrixP => i j; rewrite !mxE. Qed.
Lemma tr_opp m n (A : 'M[R]_(m, n)) : (- A)^T = - A^T. Proof. by apply/matrixP => i j; rewrite !mxE. Qed.
Lemma tr_scale m n c (A : 'M[R]_(m, n)) : (c *: A)^T = c *: A^T. Proof. by apply/matrixP => i j; rewrite !mxE. Qed.
Lemma tr_sum m n I (r : seq I) (F : I -> 'M[R]_(m, n)) : (\sum_(i <- r) F i)^T = \sum_(i <- r) (F i)^T.
Proof. by elim: r => [|i r IH]; rewrite ?big_nil ?big_cons ?tr_add ?IH //; apply/matrixP => j l; rewrite !mxE. Qed.
Lemma mx11 (A : 'M[R]_1) : A = (A 0 0)%:M. Proof. by apply/matrixP => i j; rewrite !ord1 mxE. Qed.
End Transpose.

Section Delta.
Variables (R : comRingType) (dk dv : nat).

Definition dot (x y : 'cV[R]_dk) : R := (x^T *m y) 0 0.

Lemma dotE x y : x^T *m y = (dot x y)%:M. Proof. exact: mx11. Qed.

(* F6 (i): delete and write = (I - b k k^T) S + b k v^T, for every k. *)
Theorem delta_algebra (S : 'M[R]_(dk, dv)) (k : 'cV_dk) (v : 'cV_dv) (b : R) :
  S - k *m (S^T *m k)^T + k *m (b *: v + (1 - b) *: (S^T *m k))^T = (1%:M - b *: (k *m k^T)) *m S + b *: (k *m v^T).
Proof.
rewrite tr_add !tr_scale trmx_mul trmxK mulmxDr -!scalemxAr mulmxBl mul1mx -scalemxAl mulmxA.
set X := k *m k^T *m S; set Y := k *m v^T.
by rewrite scalerBl scale1r [b *: Y + _]addrCA (addrA (S - X)) subrK -addrA [b *: Y - _]addrC.
Qed.

(* F6 (ii): what is read back at k: the blend b v + (1 - b) v_old where |k|^2 = 1. *)
Theorem delta_reads (S : 'M[R]_(dk, dv)) (k : 'cV_dk) (v : 'cV_dv) (b : R) :
  ((1%:M - b *: (k *m k^T)) *m S + b *: (k *m v^T))^T *m k = (1 - b * dot k k) *: (S^T *m k) + (b * dot k k) *: v.
Proof.
rewrite tr_add trmx_mul tr_add tr_opp !tr_scale trmx1 !trmx_mul !trmxK mulmxDl mulmxBr mulmx1 mulmxBl.
rewrite -!scalemxAr -!scalemxAl -!mulmxA dotE !mul_mx_scalar -scalemxAr !scalerA.
by rewrite scalerBl scale1r.
Qed.

Corollary delta_blend (S : 'M[R]_(dk, dv)) (k : 'cV_dk) (v : 'cV_dv) (b : R) : dot k k = 1 ->
  ((1%:M - b *: (k *m k^T)) *m S + b *: (k *m v^T))^T *m k = (1 - b) *: (S^T *m k) + b *: v.
Proof. by rewrite delta_reads => ->; rewrite mulr1. Qed.

Variables (k q : nat -> 'cV[R]_dk) (v : nat -> 'cV[R]_dv) (a b : nat -> R) (S0 : 'M[R]_(dk, dv)).

(* F7 as gates prints it. *)
Fixpoint S t : 'M[R]_(dk, dv) :=
  if t is t'.+1 then (a t' *: (1%:M - b t' *: (k t' *m (k t')^T))) *m S t' + b t' *: (k t' *m (v t')^T) else S0.

(* What token t writes: gate first, then the delta rule. *)
Definition u t : 'cV[R]_dv := b t *: (v t - a t *: ((S t)^T *m k t)).

Lemma S_step t : S t.+1 = a t *: S t + k t *m (u t)^T.
Proof.
rewrite /u tr_scale tr_add tr_opp tr_scale trmx_mul trmxK -scalemxAr mulmxBr -scalemxAr mulmxA /=.
rewrite -scalemxAl mulmxBl mul1mx -scalemxAl !scalerBr -addrA; congr (_ + _).
by rewrite addrC !scalerA [a t * _]mulrC.
Qed.

Definition Lam t j := \prod_(j.+1 <= s < t) a s.  (* the weight of token j in S t, j < t *)
Definition e t := \prod_(0 <= s < t) a s.

Lemma LamS t j : (j < t)%N -> Lam t.+1 j = a t * Lam t j.
Proof. by move=> lt_jt; rewrite /Lam big_nat_recr //= mulrC. Qed.
Lemma Lam_own t : Lam t.+1 t = 1. Proof. by rewrite /Lam big_geq. Qed.
Lemma eS t : e t.+1 = a t * e t. Proof. by rewrite /e big_nat_recr //= mulrC. Qed.

(* E4. The unrolled state: products of gates only; a t = 0 is no exception. *)
Theorem unrolled t : S t = e t *: S0 + \sum_(j < t) Lam t j *: (k j *m (u j)^T).
Proof.
elim: t => [|t IHt]; first by rewrite big_ord0 addr0 /e big_geq // scale1r.
rewrite S_step IHt big_ord_recr /= Lam_own scale1r eS scalerDr scalerA -addrA; congr (_ + (_ + _)).
by rewrite scaler_sumr; apply: eq_bigr => j _; rewrite scalerA LamS.
Qed.

(* Read by any x. *)
Lemma reads t x : (S t)^T *m x = e t *: (S0^T *m x) + \sum_(j < t) (Lam t j * dot (k j) x) *: u j.
Proof.
rewrite unrolled tr_add tr_scale tr_sum mulmxDl -scalemxAl mulmx_suml; congr (_ + _).
apply: eq_bigr => j _.
by rewrite tr_scale trmx_mul trmxK -scalemxAl -mulmxA dotE mul_mx_scalar scalerA.
Qed.

(* F8 (2), row by row: o_t = e_t q_t S0 + sum over j <= t. *)
Theorem output t : (S t.+1)^T *m q t = e t.+1 *: (S0^T *m q t) + \sum_(j < t.+1) (Lam t.+1 j * dot (k j) (q t)) *: u j.
Proof. exact: reads. Qed.

(* F8 (1), row by row: the u of a chunk solve a unit lower triangular system. *)
Theorem solves t : u t + \sum_(j < t) (b t * (Lam t.+1 j * dot (k j) (k t))) *: u j = b t *: (v t - e t.+1 *: (S0^T *m k t)).
Proof.
have -> : \sum_(j < t) (b t * (Lam t.+1 j * dot (k j) (k t))) *: u j = b t *: \sum_(j < t) (Lam t.+1 j * dot (k j) (k t)) *: u j.
  by rewrite scaler_sumr; apply: eq_bigr => j _; rewrite scalerA.
have aS : a t *: ((S t)^T *m k t) = e t.+1 *: (S0^T *m k t) + \sum_(j < t) (Lam t.+1 j * dot (k j) (k t)) *: u j.
  rewrite reads scalerDr scalerA -eS scaler_sumr; congr (_ + _).
  by apply: eq_bigr => j _; rewrite scalerA mulrA LamS.
by rewrite {1}/u aS -scalerDr opprD addrA subrK.
Qed.

(* F8 as matrices, a chunk of n tokens. *)
Variable n : nat.
Definition rows m (x : nat -> 'cV[R]_m) : 'M[R]_(n, m) := \matrix_(t, c) x t c 0.
Definition Tmx : 'M[R]_n := \matrix_(t, j) (if (j < t)%N then b t * (Lam t.+1 j * dot (k j) (k t)) else 0).
Definition Amx : 'M[R]_n := \matrix_(t, j) (if (j <= t)%N then Lam t.+1 j * dot (k j) (q t) else 0).

Lemma rowsE m (x : nat -> 'cV[R]_m) (t : 'I_n) : row t (rows x) = (x t)^T.
Proof. by apply/rowP => c; rewrite !mxE. Qed.

Lemma sum_below m (f : nat -> R) (x : nat -> 'cV[R]_m) (t : nat) (c : 'I_m) : (t <= n)%N ->
  \sum_(j < n) (if (j < t)%N then f j else 0) * x j c 0 = (\sum_(j < t) f j *: x j) c 0.
Proof.
move=> le_tn; rewrite summxE (big_ord_widen n (fun j => (f j *: x j) c 0) le_tn) [RHS]big_mkcond /=.
by apply: eq_bigr => j _; case: ifP; rewrite ?mxE ?mul0r.
Qed.

Theorem UT_form : (1%:M + Tmx) *m rows u = rows (fun t => b t *: (v t - e t.+1 *: (S0^T *m k t))).
Proof.
apply/matrixP => t c; rewrite mulmxDl mul1mx [RHS]mxE -solves [LHS]mxE [RHS]mxE; congr (_ + _); first by rewrite mxE.
rewrite mxE -(sum_below (fun j => b t * (Lam t.+1 j * dot (k j) (k t))) _ _ (ltnW (ltn_ord t))).
by apply: eq_bigr => j _; rewrite !mxE.
Qed.

Theorem output_form : rows (fun t => (S t.+1)^T *m q t) = rows (fun t => e t.+1 *: (S0^T *m q t)) + Amx *m rows u.
Proof.
apply/matrixP => t c; rewrite [LHS]mxE output [LHS]mxE [RHS]mxE; congr (_ + _); first by rewrite [RHS]mxE.
rewrite [RHS]mxE -(sum_below (fun j => Lam t.+1 j * dot (k j) (q t)) _ _ (ltn_ord t)).
by apply: eq_bigr => j _; rewrite !mxE ltnS.
Qed.

Lemma det_UT : \det (1%:M + Tmx) = 1.
Proof.
rewrite det_trig; first by rewrite big1 // => i _; rewrite !mxE eqxx ltnn addr0.
apply/is_trig_mxP => i j lt_ij; rewrite !mxE ltnNge (ltnW lt_ij) addr0.
by rewrite (_ : (i == j) = false) //; apply: negbTE; rewrite neq_ltn lt_ij.
Qed.

End Delta.

(* Over a unit ring the chunk's U is had by one solve, and splits by linearity: U = Ut - W S0 (WY form). *)
Section WY.
Variables (R : comUnitRingType) (dk dv n : nat).
Variables (k q : nat -> 'cV[R]_dk) (v : nat -> 'cV[R]_dv) (a b : nat -> R) (S0 : 'M[R]_(dk, dv)).
Let I_T := 1%:M + Tmx k a b n.

Lemma UT_unit : I_T \in unitmx.
Proof. by rewrite unitmxE det_UT unitr1. Qed.

Theorem WY_form :
  rows n (u k v a b S0) =
    invmx I_T *m rows n (fun t => b t *: v t) - (invmx I_T *m rows n (fun t => (b t * e a t.+1) *: k t)) *m S0.
Proof.
rewrite -mulmxA -mulmxBr -[LHS](mulKmx UT_unit) UT_form; congr (_ *m _).
apply/matrixP => t c; rewrite !mxE mulrBr; congr (_ - _).
rewrite mulrA mulr_sumr; apply: eq_bigr => i _; rewrite !mxE.
by rewrite [S0 i c * _]mulrC mulrA.
Qed.
End WY.
