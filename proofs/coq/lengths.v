(* Lengths of vectors and bounds of matrices over any ordered field, without square roots: |x|^2 is a sum of squares,
   and "A has norm at most c" is |A x|^2 <= c^2 |x|^2 for every x. Used by stability.v (F9) and truncation.v (A4). *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Lengths.
Variable R : realFieldType.

(* (sum p y z)^2 <= (sum p y^2) (sum p z^2) for weights p >= 0. *)
Lemma cauchy n (p y z : 'I_n -> R) : (forall i, 0 <= p i) ->
  (\sum_i p i * (y i * z i)) ^+ 2 <= (\sum_i p i * y i ^+ 2) * (\sum_i p i * z i ^+ 2).
Proof.
move=> p0; set A := \sum_i p i * y i ^+ 2; set C := \sum_i p i * z i ^+ 2; set B := \sum_i _.
suff : B ^+ 2 + B ^+ 2 <= A * C + C * A.
  by rewrite [C * A]mulrC -!mulr2n ler_muln2r.
rewrite expr2 /A /B /C !big_distrlr /= -!big_split /=; apply: ler_sum => i _.
rewrite -!big_split /=; apply: ler_sum => j _.
have -> : p i * y i ^+ 2 * (p j * z j ^+ 2) + p i * z i ^+ 2 * (p j * y j ^+ 2) =
    p i * p j * ((y i * z j) ^+ 2 + (z i * y j) ^+ 2).
  by rewrite mulrACA [p i * z i ^+ 2 * _]mulrACA -mulrDr !exprMn.
have -> : p i * (y i * z i) * (p j * (y j * z j)) + p i * (y i * z i) * (p j * (y j * z j)) =
    p i * p j * ((y i * z j) * (z i * y j) *+ 2).
  rewrite -mulr2n [RHS]mulrnAr; congr (_ *+ 2); rewrite mulrACA; congr (_ * _).
  by rewrite mulrACA [z i * z j]mulrC mulrACA [y i * _]mulrC [y j * _]mulrC.
apply: ler_wpmul2l; first by rewrite mulr_ge0.
by rewrite -subr_ge0 addrAC -sqrrB sqr_ge0.
Qed.

Definition inner n (x y : 'cV[R]_n) := \sum_i x i 0 * y i 0.
Definition len2 n (x : 'cV[R]_n) := \sum_i x i 0 ^+ 2.

Lemma len2E n (x : 'cV[R]_n) : len2 x = inner x x. Proof. by apply: eq_bigr => i _; rewrite expr2. Qed.
Lemma len2_ge0 n (x : 'cV[R]_n) : 0 <= len2 x. Proof. by apply: sumr_ge0 => i _; apply: sqr_ge0. Qed.
Lemma len2_0 n : len2 (0 : 'cV[R]_n) = 0. Proof. by rewrite /len2 big1 // => i _; rewrite mxE expr0n. Qed.

Lemma innerC n (x y : 'cV[R]_n) : inner x y = inner y x. Proof. by apply: eq_bigr => i _; rewrite mulrC. Qed.
Lemma innerDr n (x y z : 'cV[R]_n) : inner x (y + z) = inner x y + inner x z.
Proof. by rewrite -big_split; apply: eq_bigr => i _; rewrite mxE mulrDr. Qed.
Lemma innerZr n c (x y : 'cV[R]_n) : inner x (c *: y) = c * inner x y.
Proof. by rewrite /inner mulr_sumr; apply: eq_bigr => i _; rewrite mxE mulrCA. Qed.
Lemma inner_col m n (x x' : 'cV[R]_m) (y y' : 'cV[R]_n) : inner (col_mx x y) (col_mx x' y') = inner x x' + inner y y'.
Proof. by rewrite /inner big_split_ord; congr (_ + _); apply: eq_bigr => i _; rewrite ?col_mxEu ?col_mxEd. Qed.
Lemma len2_gt0 n (x : 'cV[R]_n) : x != 0 -> 0 < len2 x.
Proof.
move=> x0; rewrite lt_def len2_ge0 andbT; apply: contraNneq x0 => /eqP.
rewrite psumr_eq0 => [/allP zero|i _]; last exact: sqr_ge0.
apply/eqP/matrixP => i j; rewrite ord1 mxE; apply/eqP; rewrite -sqrf_eq0.
by apply: zero; rewrite mem_index_enum.
Qed.

Lemma inner_le n (x y : 'cV[R]_n) : inner x y ^+ 2 <= len2 x * len2 y.
Proof.
have one (f : 'I_n -> R) : \sum_i 1 * f i = \sum_i f i by apply: eq_bigr => i _; rewrite mul1r.
by have := @cauchy n (fun _ => 1) (fun i => x i 0) (fun i => y i 0) (fun _ => ler01); rewrite !one.
Qed.

Lemma len2D n (x y : 'cV[R]_n) : len2 (x + y) = len2 x + len2 y + inner x y *+ 2.
Proof.
rewrite /inner -sumrMnl /len2 -!big_split /=; apply: eq_bigr => i _.
by rewrite mxE sqrrD addrAC.
Qed.

Lemma len2Z n c (x : 'cV[R]_n) : len2 (c *: x) = c ^+ 2 * len2 x.
Proof. by rewrite /len2 mulr_sumr; apply: eq_bigr => i _; rewrite mxE exprMn. Qed.

Lemma len2_col m n (x : 'cV[R]_m) (y : 'cV[R]_n) : len2 (col_mx x y) = len2 x + len2 y.
Proof.
by rewrite /len2 big_split_ord /=; congr (_ + _); apply: eq_bigr => i _; rewrite (col_mxEu, col_mxEd).
Qed.

Definition bounded m n (c : R) (A : 'M[R]_(m, n)) := forall x : 'cV_n, len2 (A *m x) <= c ^+ 2 * len2 x.

Lemma bounded_le m n c c' (A : 'M[R]_(m, n)) : 0 <= c -> c <= c' -> bounded c A -> bounded c' A.
Proof.
move=> c0 cc hA x; apply: le_trans (hA x) _; apply: ler_wpmul2r; first exact: len2_ge0.
by rewrite ler_sqr ?nnegrE // (le_trans c0).
Qed.

Lemma boundedD m n a b (A B : 'M[R]_(m, n)) : 0 <= a -> 0 <= b -> bounded a A -> bounded b B -> bounded (a + b) (A + B).
Proof.
move=> a0 b0 hA hB x; rewrite mulmxDl len2D sqrrD 2!mulrDl [X in _ <= X]addrAC.
apply: ler_add; first by apply: ler_add.
rewrite mulrnAl ler_muln2r /=.
apply: le_trans (ler_norm _) _; rewrite -(@ler_pexpn2r _ 2) ?nnegrE ?mulr_ge0 ?len2_ge0 //.
rewrite real_normK ?num_real //; apply: le_trans (inner_le _ _) _.
have -> : (a * b * len2 x) ^+ 2 = (a ^+ 2 * len2 x) * (b ^+ 2 * len2 x).
  by rewrite !exprMn [len2 x ^+ 2]expr2 [RHS]mulrACA.
by apply: ler_pmul; rewrite ?len2_ge0.
Qed.

(* Absolute sums of rows and columns (Schur's test). *)
Lemma bounded_sums m n c (A : 'M[R]_(m, n)) :
  (forall i, \sum_j `|A i j| <= c) -> (forall j, \sum_i `|A i j| <= c) -> bounded c A.
Proof.
move=> rows cols x.
have [c0|c0] := leP 0 c; last first.
  have -> : A = 0 by apply/matrixP => i j; have := le_lt_trans (rows i) c0; rewrite ltNge sumr_ge0.
  by rewrite mul0mx len2_0 mulr_ge0 ?sqr_ge0 ?len2_ge0.
have row_le i : (A *m x) i 0 ^+ 2 <= c * \sum_j `|A i j| * x j 0 ^+ 2.
  have abs : (A *m x) i 0 ^+ 2 <= (\sum_j `|A i j| * (1 * `|x j 0|)) ^+ 2.
    rewrite -[X in X <= _](real_normK (num_real _)) ler_pexpn2r ?nnegrE ?sumr_ge0 // => [|j _].
      2: by rewrite !mulr_ge0.
    by rewrite mxE; apply: le_trans (ler_norm_sum _ _ _) _; apply: ler_sum => j _; rewrite normrM mul1r.
  apply: le_trans abs _; apply: le_trans (cauchy _ _ _) _ => //.
  rewrite [\sum_j `|A i j| * 1 ^+ 2](eq_bigr (fun j => `|A i j|)) => [|j _]; last by rewrite expr1n mulr1.
  rewrite [\sum_j `|A i j| * `|_| ^+ 2](eq_bigr (fun j => `|A i j| * x j 0 ^+ 2)) => [|j _].
    2: by rewrite real_normK ?num_real.
  by apply: ler_wpmul2r (rows i); apply: sumr_ge0 => j _; rewrite mulr_ge0 // sqr_ge0.
apply: le_trans (ler_sum _ (fun i _ => row_le i)) _.
rewrite -mulr_sumr expr2 -mulrA; apply: ler_wpmul2l => //.
rewrite exchange_big /= /len2 mulr_sumr; apply: ler_sum => j _.
by rewrite -mulr_suml; apply: ler_wpmul2r; rewrite ?sqr_ge0.
Qed.

Lemma bounded_diag m n p q c (A : 'M[R]_(m, n)) (B : 'M[R]_(p, q)) :
  bounded c A -> bounded c B -> bounded c (block_mx A 0 0 B).
Proof.
move=> hA hB x; rewrite -[x]vsubmxK mul_block_col !mul0mx addr0 add0r !len2_col mulrDr; exact: ler_add.
Qed.

(* A block of a matrix has no larger a norm; nor has what it is if all the rest is 0. *)
Lemma bounded_corners m n p q c (A : 'M[R]_(m, n)) (B : 'M[R]_(m, q)) (C : 'M[R]_(p, n)) (D : 'M[R]_(p, q)) :
  bounded c (block_mx A B C D) -> [/\ bounded c A, bounded c C & bounded c D].
Proof.
move=> h; split=> x.
- have := h (col_mx x 0); rewrite mul_block_col !mulmx0 !addr0 !len2_col len2_0 addr0; apply: le_trans.
  by rewrite ler_addl len2_ge0.
- have := h (col_mx x 0); rewrite mul_block_col !mulmx0 !addr0 !len2_col len2_0 addr0; apply: le_trans.
  by rewrite ler_addr len2_ge0.
- have := h (col_mx 0 x); rewrite mul_block_col !mulmx0 !add0r !len2_col len2_0 add0r; apply: le_trans.
  by rewrite ler_addr len2_ge0.
Qed.

Lemma bounded_low m n p q c (C : 'M[R]_(p, n)) :
  bounded c C -> bounded c (block_mx (0 : 'M_(m, n)) (0 : 'M_(m, q)) C 0).
Proof.
move=> h x; rewrite -[x]vsubmxK mul_block_col !mul0mx !addr0 !len2_col len2_0 add0r mulrDr.
by apply: le_trans (h _) _; rewrite ler_addl mulr_ge0 ?sqr_ge0 ?len2_ge0.
Qed.
End Lengths.
